/* fuzz_chat.c: files of conversations, packed or not, and a model's folder whose settings are any
 * bytes. A row that is accepted has turns that a template can write, or texts; as ids it has a
 * control token only where the template writes one. */
#include "tests/fuzz/fuzz.h"

#include "chat/encode.h"

#include <string.h>
#include <zlib.h>
#include <zstd.h>

static const char chatml[] = "{% for m in messages %}{{ m.role ~ ':' ~ (m.content or m.tool_calls)"
                             " }}<|endoftext|>{% endfor %}{{ tools }}{{ bos_token }}";
static struct tokenizer *tok;

static void start(void)
{
    static const uint32_t merges[][2] = { { 83, 71 }, { 256, 68 }, { 27, 91 } };
    struct err            err;

    FUZZ_CHECK(!tokenizer_from_merges(&tok, merges, sizeof merges / sizeof *merges, &err));
}

static void check_turns(const struct chat_turns *t, const json_t *tools)
{
    const char *const roles[] = { "system", "developer", "user", "assistant", "tool", "function",
                                  "ipython" };
    const json_t *m;
    size_t        i, k;

    FUZZ_CHECK(json_array_size(t->messages) > 0 && (!tools || json_is_array(tools)));
    json_array_foreach(t->messages, i, m) {
        const json_t *content = json_object_get(m, "content");

        for (k = 0; k < sizeof roles / sizeof *roles; k++)
            if (!strcmp(json_str(m, "role"), roles[k]))
                break;
        FUZZ_CHECK(k < sizeof roles / sizeof *roles && t->counts[i] <= CHAT_PROMPT);
        FUZZ_CHECK(json_is_string(content) || json_is_array(content) || !strcmp(roles[k],
                                                                                "assistant"));
    }
}

static void render(const struct chat_template *t, const struct chat_row *row)
{
    const struct chat_rendering how = { .messages = row->turns.messages, .tools = row->tools,
                                        .variables = row->variables };
    struct jinja_output         out;
    json_t                     *kept;
    struct err                  err = { 0 };
    int                         rc = chat_template_render(t, &how, &out, &kept, &err);

    if (rc) {
        fuzz_refused(rc, &err);
        FUZZ_CHECK(!kept && !out.text);
        return;
    }
    json_decref(kept);
    jinja_output_free(&out);
}

static size_t controls(const struct chat_ids *x)
{
    size_t n = 0, counted = 0;

    for (size_t i = 0; i < x->ids.n; i++) {
        n += (size_t)tokenizer_is_control(tok, x->ids.ids[i]);
        counted += x->counts[i];
    }
    FUZZ_CHECK(counted == x->counted);
    return n;
}

static void encode(const struct chat_row *row, const struct chat_template *t)
{
    struct chat_encoding how = { .tok = tok, .chat = t, .loss = row->line % 3 };
    struct chat_ids      one = { 0 }, other = { 0 };
    struct err           err = { 0 };
    size_t turns = row->has_turns ? json_array_size(row->turns.messages) : 1,
           others = row->has_turns ? json_array_size(row->other_turns.messages) : 1;
    int rc = chat_encode(&how, row, &one, &other, &err);

    if (rc)
        fuzz_refused(rc, &err);
    FUZZ_CHECK(rc || controls(&one) == turns);
    FUZZ_CHECK(rc || row->form != CHAT_FORM_PREFERENCE || controls(&other) == others);
    chat_ids_free(&one);
    chat_ids_free(&other);
}

static void check_row(const struct chat_row *row, const struct chat_template *t)
{
    int two = row->form == CHAT_FORM_PREFERENCE;

    FUZZ_CHECK(row->form > CHAT_FORM_FOUND && chat_form_name(row->form) && row->line > 0);
    encode(row, t);
    if (!row->has_turns) {
        FUZZ_CHECK(row->prompt && row->completion && (!two || row->other));
        return;
    }
    check_turns(&row->turns, row->tools);
    if (two)
        check_turns(&row->other_turns, row->tools);
    render(t, row);
}

static int rows(enum chat_form form, const struct fuzz_in *in)
{
    const struct chat_row *row;
    struct chat_rows      *r;
    struct chat_template  *t;
    struct err             err = { 0 };
    size_t                 line = 0;
    int                    rc;

    fuzz_put("rows", in->p, in->n);
    fuzz_put("chat_template.jinja", chatml, sizeof chatml - 1);
    FUZZ_CHECK(!chat_template_open(&t, fuzz_dir(), NULL, &err) && t);
    rc = chat_rows_open(&r, fuzz_path("rows"), form, NULL, &err);
    while (!rc && (rc = chat_rows_next(r, &row, &err)) > 0) {
        FUZZ_CHECK(row->line >= line);
        line = row->line;
        check_row(row, t);
        rc = 0;
    }
    if (!rc)
        FUZZ_CHECK(line > 0 && (!form || chat_rows_form(r) == form));
    chat_rows_close(r);
    chat_template_close(t);
    fuzz_remove("chat_template.jinja");
    return rc ? fuzz_refused(rc, &err) : 1;
}

/* tokenizer_config.json, special_tokens_map.json, chat_template.json */
static int folder(struct fuzz_in *in)
{
    static const char *const names[] = { "tokenizer_config.json", "special_tokens_map.json",
                                         "chat_template.json" };
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", "x");
    const struct chat_row row = { .turns.messages = messages };
    struct chat_template *t;
    struct err            err = { 0 };

    for (size_t i = 0; i < 3; i++) {
        struct fuzz_in part = fuzz_part(in);

        if (part.n)
            fuzz_put(names[i], part.p, part.n);
    }
    int rc = chat_template_open(&t, fuzz_dir(), NULL, &err);

    if (!rc && t)
        render(t, &row);
    if (!rc && t)
        FUZZ_CHECK(chat_template_marks(t, NULL) >= 0);
    chat_template_close(t);
    json_decref(messages);
    for (size_t i = 0; i < 3; i++)
        fuzz_remove(names[i]);
    return rc ? fuzz_refused(rc, &err) : 1;
}

static int one(const uint8_t *bytes, size_t n)
{
    struct fuzz_in in = { bytes, n };
    unsigned       how = (unsigned)fuzz_number(&in, 1);

    return how >= 128 ? folder(&in) : rows(how < 7 ? (enum chat_form)how : CHAT_FORM_FOUND, &in);
}

static void seed_of(unsigned how, const void *bytes, size_t n)
{
    struct fuzz_out out = { 0 };

    fuzz_add_number(&out, how, 1);
    fuzz_add(&out, bytes, n);
    fuzz_seed_out(&out);
}

static void seed_packed(const char *text)
{
    unsigned char to[4096];
    z_stream      z = { .next_in = (Bytef *)(uintptr_t)text, .avail_in = (uInt)strlen(text),
                        .next_out = to, .avail_out = sizeof to };

    FUZZ_CHECK(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK &&
               deflate(&z, Z_FINISH) == Z_STREAM_END);
    seed_of(0, to, z.total_out);
    deflateEnd(&z);
    seed_of(0, to, ZSTD_compress(to, sizeof to, text, strlen(text), 1));
}

static void seeds(void)
{
    static const char *const texts[] = {
        "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", "
        "\"content\": [{\"type\": \"text\", \"text\": \"q\"}]}, {\"role\": \"assistant\", "
        "\"content\": null, \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": "
        "\"{}\"}}], \"train\": false, \"thinking\": \"t\"}], \"tools\": \"[{}]\", "
        "\"chat_template_kwargs\": {\"a\": 1}}\n\n{\"messages\": [{\"role\": \"user\", "
        "\"content\": \"\\u00e9\", \"weight\": 1.0}]}",
        "[{\"conversations\": [{\"from\": \"human\", \"value\": \"q\"}, {\"from\": "
        "\"function_call\", \"value\": \"{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {}}\"}, "
        "{\"from\": \"observation\", \"value\": \"1\"}, {\"from\": \"gpt\", \"value\": \"a\"}], "
        "\"system\": \"s\", \"tools\": \"[{\\\"name\\\": \\\"f\\\"}]\"},\n {\"conversations\": "
        "[{\"role\": \"user\", \"content\": \"x\"}]}]",
        "{\"instruction\": \"i\", \"input\": \"j\", \"output\": \"a\", \"system\": \"s\", "
        "\"history\": [[\"q\", \"b\"]]}",
        "{\"prompt\": \"p\", \"completion\": \"c\"}\n{\"prompt\": [{\"role\": \"user\", "
        "\"content\": \"q\"}], \"completion\": [{\"role\": \"assistant\", \"content\": \"a\"}]}",
        "{\"text\": \"x\"}",
        "{\"messages\": [{\"role\": \"user\", \"content\": \"<|endoftext|>\"}, {\"role\": "
        "\"assistant\", \"content\": \"\", \"tool_calls\": [{\"function\": {\"name\": \"f\", "
        "\"arguments\": {\"<|endoftext|>\": [1]}}}]}], \"tools\": [{\"<|endoftext|>\": {}}]}",
        "{\"prompt\": \"q\", \"chosen\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": "
        "\"assistant\", \"content\": \"a\"}], \"rejected\": [{\"role\": \"user\", \"content\": "
        "\"q\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}\n{\"chosen\": \"so \\u00e9\", "
        "\"rejected\": \"so \\u00e8\"}",
        "prompt,completion\n\"a, \"\"b\"\"\nc\",d\r\n",
    };
    static const char settings[] =
        "{\"chat_template\": [{\"name\": \"default\", \"template\": \"{{ bos_token }}\"}, "
        "{\"name\": \"tool_use\", \"template\": \"t\"}], \"bos_token\": {\"content\": \"<s>\"}, "
        "\"eos_token\": \"</s>\", \"extra_special_tokens\": {\"image_token\": \"i\"}}";
    struct fuzz_out out = { 0 };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        seed_of(i % 2 ? 0 : (unsigned)i + 1, texts[i], strlen(texts[i]));
        seed_packed(texts[i]);
    }
    seed_of(128, settings, sizeof settings - 1);
    fuzz_add_number(&out, 200, 1);
    fuzz_add(&out, "{\"bos_token\": null}", 19);
    fuzz_add_mark(&out);
    fuzz_add(&out, "{\"bos_token\": \"<s>\"}", 20);
    fuzz_add_mark(&out);
    fuzz_add(&out, "{\"chat_template\": \"{{ messages }}\"}", 34);
    fuzz_seed_out(&out);
}

/* zstd's window may be 128 MiB. */
const struct fuzz_target fuzz_chat = { "chat", start, one, seeds, 160 << 20, 4096, 3000 };
