#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks a running server for one streamed completion: first_answer.py URL

Text and speed go to stderr as they come, so that stdout holds one line alone: the model's name, for the caller.
"""
import json
import sys
import time
import urllib.request

CHAT_PROMPT = "<|im_start|>user\nName three uses of a cache.<|im_end|>\n<|im_start|>assistant\n"
TEXT_PROMPT = "A cache is useful in three ways. First,"


def post(url, body, timeout_s):
    return urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"}),
                                  timeout=timeout_s)


def prompt_for(url):
    """A chat's turn where the vocabulary knows its marks, else text to go on with."""
    with post(url + "/tokenize", {"prompt": "<|im_start|>", "add_special_tokens": False}, 30) as r:
        return CHAT_PROMPT if json.load(r)["count"] == 1 else TEXT_PROMPT


def chunks(response):
    """The JSON of each `data:` line until [DONE]."""
    for line in response:
        if line.startswith(b"data: ") and not line.startswith(b"data: [DONE]"):
            yield json.loads(line[6:])


def main():
    url = sys.argv[1]
    with urllib.request.urlopen(url + "/v1/models", timeout=30) as r:
        name = json.load(r)["data"][0]["id"]
    body = {"model": name, "prompt": prompt_for(url), "max_tokens": 96, "temperature": 0, "stream": True,
            "stream_options": {"include_usage": True}}
    start = time.monotonic()
    first = last = None
    usage = {}
    text = ""
    print(file=sys.stderr)
    with post(url + "/v1/completions", body, 300) as r:
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
