/* prompts.c: texts and their ids. */
#include "cmd/prompts.h"

#include "data/base/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add(struct prompts *p, const char *text, size_t n, size_t line, struct tokenizer *tok,
               struct err *err)
{
    struct prompt *more = realloc(p->item, (p->n + 1) * sizeof *more);

    if (!more)
        return err_set(err, -ENOMEM, "out of memory for %zu prompts", p->n + 1);
    p->item = more;
    p->item[p->n] = (struct prompt){ .text = text, .n = n, .line = line };
    return tokenizer_encode(tok, text, n, &p->item[p->n++].ids, err);
}

static int add_lines(struct prompts *p, const char *path, struct tokenizer *tok, struct err *err)
{
    size_t size, line = 1;
    int    rc = file_read_whole(&p->file, &size, path, UINT64_MAX, err);

    if (!rc && size == 0)
        return err_misuse(err, "%s is empty: expected a prompt a line", path);
    for (size_t i = 0, n; !rc && i < size; i += n + 1, line++) {
        const char *text = p->file + i, *end = memchr(text, '\n', size - i);
        size_t      len;

        n = end ? (size_t)(end - text) : size - i;
        len = n && text[n - 1] == '\r' ? n - 1 : n;
        rc = len ? add(p, text, len, line, tok, err)
                 : err_misuse(err, "%s:%zu: the line is empty; expected a prompt a line", path,
                              line);
    }
    return rc;
}

int prompts_open(struct prompts *p, const char *const *texts, size_t n_texts, const char *path,
                 struct tokenizer *tok, struct err *err)
{
    static const char start[] = "<|endoftext|>";
    int               rc = 0;

    memset(p, 0, sizeof *p);
    for (size_t i = 0; !rc && i < n_texts; i++)
        rc = add(p, texts[i], strlen(texts[i]), 0, tok, err);
    if (!rc && path)
        rc = add_lines(p, path, tok, err);
    if (rc || p->n)
        return rc;
    if (tokenizer_endoftext(tok) < 0)
        return err_misuse(err, "--prompt TEXT is missing, and the tokenizer has no <|endoftext|> "
                               "to begin with");
    rc = add(p, start, sizeof start - 1, 0, tok, err);
    if (!rc)
        p->item[0].n = 0; // it is not printed
    return rc;
}

void prompts_close(struct prompts *p)
{
    for (size_t i = 0; i < p->n; i++)
        token_buf_free(&p->item[i].ids);
    free(p->item);
    free(p->file);
    memset(p, 0, sizeof *p);
}

const char *prompts_name(const struct prompts *p, size_t i, const char *path, char *buf,
                         size_t size)
{
    if (p->item[i].line)
        snprintf(buf, size, "%s:%zu", path, p->item[i].line);
    else if (p->n > 1)
        snprintf(buf, size, "prompt %zu", i + 1);
    else
        snprintf(buf, size, "the prompt");
    return buf;
}
