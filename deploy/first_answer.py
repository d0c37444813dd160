#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks a running server for one streamed completion: first_answer.py URL

Text and speed go to stderr as they come, so that stdout holds one line alone: the model's name, for the caller.
"""
import json
import sys
import time
import urllib.request

PROMPT = "<|im_start|>user\nName three uses of a cache.<|im_end|>\n<|im_start|>assistant\n"


def chunks(response):
    """The JSON of each `data:` line until [DONE]."""
    for line in response:
        if line.startswith(b"data: ") and not line.startswith(b"data: [DONE]"):
            yield json.loads(line[6:])


def main():
    url = sys.argv[1]
    with urllib.request.urlopen(url + "/v1/models", timeout=30) as r:
        name = json.load(r)["data"][0]["id"]
    body = {"model": name, "prompt": PROMPT, "max_tokens": 96, "temperature": 0, "stream": True,
            "stream_options": {"include_usage": True}}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    start = time.monotonic()
    first = last = None
    usage = {}
    text = ""
    print(file=sys.stderr)
    with urllib.request.urlopen(request, timeout=300) as r:
        for chunk in chunks(r):
            if "error" in chunk:
                sys.exit("the server answered: " + chunk["error"]["message"])
            usage = chunk.get("usage") or usage
            for choice in chunk["choices"]:
                last = time.monotonic()
                first = first or last
                text += choice["text"]
                print(choice["text"], end="", flush=True, file=sys.stderr)
    count = usage.get("completion_tokens", 0)
    if not text or count < 2:
        sys.exit("the stream held no text")
    print(f"\n\n      {count} tokens, the first after {1000 * (first - start):.0f} ms, then "
          f"{(count - 1) / max(last - first, 1e-9):.0f} tokens/s", file=sys.stderr)
    print(name)


if __name__ == "__main__":
    main()
