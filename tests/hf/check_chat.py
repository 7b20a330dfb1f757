#!/usr/bin/env python3
"""check_chat.py: `siTrain prepare --render` beside transformers' apply_chat_template, byte by byte: every template that trl's and transformers'
packages bring, and templates of our own in each place where a folder may have them, over the conversations of make_jinja.py and many by seed.

What transformers refuses is to be refused, too. strftime_now gets the same day on both sides.
"""
import datetime
import glob
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile

from checks import BIN, done, result, skip

try:
    import transformers.utils.chat_template_utils as utils
    from tokenizers import Tokenizer, models
    from transformers import AutoTokenizer
except ImportError as missing:
    skip("chat templates", f"{missing.name} is not installed")
    sys.exit(done())

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures"))
from make_jinja import CALL, CONVERSATIONS, TOOL  # noqa: E402

DAY = datetime.datetime(2026, 2, 3, 12)


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return DAY


utils.datetime = Clock

# What people write, and what would be something else to a template, to JSON, to Python or to a terminal.
WORDS = ["Hello", "é", "😀", "日本", "<|im_end|>", "</s>", "[INST]", "{{ x }}", "{% if %}", "\n", "\n\n", "\t", " ", "  ", "'", '"', "\\", "<b>", "&amp;",
         "<think>", "</think>", "```py\nx = {'a': 1}\n```", "\u00a0", "\u2028", "\u0085", "\u007f", "1.5", "None", "True", "null", "<tool_call>", "\u200d"]


def text(r):
    return "".join(r.choice(WORDS) for _ in range(r.randrange(0, 9)))


def value(r, depth=0):
    kinds = [lambda: text(r), lambda: r.randrange(-9, 10**9), lambda: r.random() * 10**r.randrange(-8, 20), lambda: None, lambda: r.random() < 0.5]
    if depth < 3:
        kinds += [lambda: [value(r, depth + 1) for _ in range(r.randrange(3))], lambda: {text(r) or "k": value(r, depth + 1) for _ in range(r.randrange(3))}]
    return r.choice(kinds)()


def conversation(r):
    """A conversation as people have them; some end with a user, some begin with an assistant, some call tools."""
    messages, row = [], {}
    if r.random() < 0.4:
        messages.append({"role": r.choice(["system", "system", "developer"]), "content": text(r)})
    for _ in range(r.randrange(1, 5)):
        user = {"role": "user", "content": text(r)}
        answer = {"role": "assistant", "content": text(r)}
        if r.random() < 0.15:
            user["content"] = [{"type": "text", "text": text(r)} for _ in range(r.randrange(1, 3))]
        if r.random() < 0.2:
            answer[r.choice(["reasoning_content", "thinking", "reasoning"])] = r.choice([text(r), None])
        messages += [user] if r.random() < 0.95 else []
        if r.random() < 0.3:
            row["tools"] = [TOOL] if r.random() < 0.8 else [dict(TOOL, function=dict(TOOL["function"], description=text(r)))]
            calls = [{"type": "function", "id": "abcdefgh%d" % i, "function": {
                "name": "f", "arguments": r.choice([{"x": value(r), "y": value(r)}, {}, '{"x": 1}'])}} for i in range(r.randrange(1, 3))]
            messages.append({"role": "assistant", "content": r.choice(["", None, text(r)]), "tool_calls": calls})
            messages += [{"role": "tool", "content": text(r), "name": "f", "tool_call_id": call["id"]} for call in calls]
        messages += [answer] if r.random() < 0.9 else []
    row["messages"] = messages or [{"role": "user", "content": "q"}]
    if r.random() < 0.15:
        row["chat_template_kwargs"] = {r.choice(["enable_thinking", "thinking", "reasoning_effort"]): r.choice([True, False, "high"])}
    return row


def rows_of(conversations):
    for c in conversations:
        if c["messages"]:  # an empty conversation is refused by both before any template sees it
            extra = {k: v for k, v in c.items() if k not in ("messages", "tools", "documents")}
            yield {**{k: c[k] for k in ("messages", "tools") if k in c}, **({"chat_template_kwargs": extra} if extra else {})}


def folder(path, config, **files):
    """A model's folder with a tokenizer of a few ids."""
    os.makedirs(path)
    Tokenizer(models.BPE(vocab={"a": 0, "<s>": 1, "</s>": 2, "<unk>": 3}, merges=[])).save(f"{path}/tokenizer.json")
    with open(f"{path}/tokenizer_config.json", "w", encoding="utf-8") as f:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", **config}, f)
    for name, content in files.items():
        name = name.replace("__", "/").replace("_DOT_", ".")
        os.makedirs(os.path.dirname(f"{path}/{name}"), exist_ok=True)
        with open(f"{path}/{name}", "w", encoding="utf-8") as f:
            f.write(content)
    return path


def rendered(tok, row, prompt, **how):
    """What transformers writes; None where it refuses."""
    try:
        return tok.apply_chat_template(row["messages"], tools=row.get("tools"), tokenize=False, add_generation_prompt=prompt,
                                       **row.get("chat_template_kwargs", {}), **how)
    except Exception:  # any error of a template
        return None


def prepare(tmp, path, rows, *options):
    with open(f"{tmp}/rows.jsonl", "w", encoding="utf-8") as f:
        f.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return subprocess.run([BIN, "prepare", f"{tmp}/rows.jsonl", "--init", path, "--render", "--date", f"{DAY:%Y-%m-%d}", *options],
                          capture_output=True, check=False)


def compare(tmp, path, rows, options=(), **how):
    """What differs, and how many texts were compared and how many were refused."""
    tok = AutoTokenizer.from_pretrained(path)
    for prompt in False, True:
        flags = [*options, *(["--generation-prompt"] if prompt else [])]
        wanted = [(row, rendered(tok, row, prompt, **how)) for row in rows]
        fine = [(row, want) for row, want in wanted if want is not None]
        ran = prepare(tmp, path, [row for row, _ in fine], *flags) if fine else None
        got = [json.loads(line) for line in ran.stdout.splitlines()] if ran else []
        for (row, want), is_ in zip(fine, got):
            if is_ != want:
                yield f"prompt {prompt}: {json.dumps(row)[:300]}\n#   siTrain      {is_!r}\n#   transformers {want!r}"
        if len(got) != len(fine):
            yield f"prompt {prompt}: {ran.stderr.decode()[:300]} ({json.dumps(fine[len(got)][0])[:300]})"
        for row, want in wanted:
            if want is None and prepare(tmp, path, [row], *flags).returncode != 2:
                yield f"prompt {prompt}: transformers refuses {json.dumps(row)[:300]}"
        COUNT[0] += len(rows)
        COUNT[1] += len(rows) - len(fine)


COUNT = [0, 0]
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
PLAIN = "{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}\n{% endfor %}"
ALL = "{{ bos_token }}|{{ eos_token }}|{{ unk_token }}|{{ pad_token }}|{{ sep_token }}|{{ cls_token }}|{{ mask_token }}|{{ image_token }}|{{ audio_token }}|" \
      "{{ bos_token is defined }}|{{ tools is none }}|{{ documents is none }}|{{ add_generation_prompt }}|{{ messages | tojson }}"


def places(tmp):
    """Folders with our own templates: (name, folder, options, apply_chat_template's)."""
    content = {"__type": "AddedToken", "content": "<s>", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    lists = [{"name": "default", "template": "D" + PLAIN}, {"name": "tool_use", "template": "T" + PLAIN}, {"name": "rag", "template": "R" + PLAIN}]
    yield "a text", folder(f"{tmp}/text", {**TOKENS, "chat_template": ALL}), (), {}
    yield "a list", folder(f"{tmp}/list", {**TOKENS, "chat_template": lists}), (), {}
    yield "a list, by name", f"{tmp}/list", ("--chat-template", "rag"), {"chat_template": "rag"}
    yield "a file before the settings", folder(f"{tmp}/file", {**TOKENS, "chat_template": lists}, chat_template_DOT_jinja=PLAIN), (), {}
    yield "further files", folder(f"{tmp}/files", TOKENS, chat_template_DOT_jinja=PLAIN, additional_chat_templates__tool_use_DOT_jinja="T" + ALL,
                                  additional_chat_templates__x_DOT_jinja="X" + ALL), (), {}
    yield "further files, by name", f"{tmp}/files", ("--chat-template", "x"), {"chat_template": "x"}
    with open(f"{tmp}/own.jinja", "w", encoding="utf-8") as f:
        f.write("own " + ALL)
    yield "a file of one's own", f"{tmp}/files", ("--chat-template", f"{tmp}/own.jinja"), {"chat_template": "own " + ALL}
    yield "other tokens", f"{tmp}/text", ("--bos", "B", "--eos", "<é>"), {"bos_token": "B", "eos_token": "<é>"}
    yield "no beginning", folder(f"{tmp}/none", {"bos_token": None, "eos_token": "</s>", "chat_template": ALL}), (), {}
    yield "tokens with their settings", folder(f"{tmp}/added", {
        "bos_token": content, "eos_token": dict(content, content="</s>"), "image_token": "<img>", "chat_template": ALL,
        "extra_special_tokens": {"audio_token": "<au>"}}), (), {}
    yield "the map of special tokens", folder(f"{tmp}/map", {"bos_token": "</s>", "chat_template": ALL}, special_tokens_map_DOT_json=json.dumps(
        {"bos_token": {k: v for k, v in content.items() if k != "__type"}, "pad_token": "<unk>"})), (), {}
    yield "a map that is not read", folder(f"{tmp}/both", {**TOKENS, "added_tokens_decoder": {"1": {"content": "<s>", "special": True}}, "chat_template": ALL},
                                           special_tokens_map_DOT_json=json.dumps({"bos_token": "<unk>", "pad_token": "<unk>"})), (), {}


def main():
    r = random.Random(1)
    rows = [*rows_of(CONVERSATIONS), *(conversation(r) for _ in range(60))]
    files = sorted(f for package in ("trl", "transformers") if (spec := importlib.util.find_spec(package))
                   for f in glob.glob(os.path.join(os.path.dirname(spec.origin), "**", "*.jinja"), recursive=True))
    with tempfile.TemporaryDirectory() as tmp:
        for name, path, options, how in places(tmp):
            differ = list(compare(tmp, path, rows, options, **how))
            result(not differ, f"a template in its place: {name}", "\n# ".join(differ[:3]))
        for i, name in enumerate(files):
            with open(name, encoding="utf-8") as f:
                path = folder(f"{tmp}/{i}", TOKENS, chat_template_DOT_jinja=f.read())
            differ = list(compare(tmp, path, rows))
            result(not differ, f"{os.path.basename(name)}: the same texts", "\n# ".join(differ[:3]))
    if not files:
        skip("templates of packages", "neither trl nor transformers brings any")
    print(f"# {COUNT[0]} texts of {len(files)} templates, {COUNT[1]} of them refused by both")
    return done()


sys.exit(main())
