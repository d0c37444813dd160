#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Drives a server with the official OpenAI client: openai_client.py BASE_URL. Prints ok when all was as the client expects."""
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
name = client.models.list().data[0].id
ask = {"model": name, "prompt": "The capital of France is", "max_tokens": 6, "temperature": 0}

whole = client.completions.create(**ask)
assert whole.choices[0].text and whole.choices[0].finish_reason == "length", whole
assert whole.usage.completion_tokens == 6 and whole.usage.total_tokens == 6 + whole.usage.prompt_tokens, whole.usage

parts = list(client.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
assert "".join(p.choices[0].text for p in parts if p.choices) == whole.choices[0].text, parts
assert parts[-1].choices == [] and parts[-1].usage.completion_tokens == 6, parts[-1]

again = client.completions.create(**ask)
assert again.choices[0].text == whole.choices[0].text
assert again.usage.prompt_tokens_details.cached_tokens == whole.usage.prompt_tokens - 1, again.usage

scored = client.completions.create(**{**ask, "max_tokens": 0}, echo=True, logprobs=2)
logprobs = scored.choices[0].logprobs
assert scored.choices[0].text == ask["prompt"], scored
assert logprobs.token_logprobs[0] is None and all(x <= 0 for x in logprobs.token_logprobs[1:]), logprobs
assert len(logprobs.tokens) == len(logprobs.text_offset) == len(logprobs.top_logprobs) == scored.usage.prompt_tokens

stopped = client.completions.create(**{**ask, "max_tokens": 64}, stop=["\n", "."])
assert stopped.choices[0].finish_reason == "stop" and "." not in stopped.choices[0].text, stopped

for fields, error in (({"temperature": -1}, openai.BadRequestError), ({"model": "another"}, openai.NotFoundError),
                      ({"best_of": 2}, openai.BadRequestError), ({"max_tokens": -5}, openai.BadRequestError)):
    try:
        client.completions.create(**{**ask, **fields})
    except error as e:
        assert e.body["message"], e.body
    else:
        raise AssertionError(f"{fields} was taken")
print("ok")
