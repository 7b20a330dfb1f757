/* lex.h: cuts a template into texts and the tokens of its statements and expressions, with jinja2's
 * rules of white space (trim_blocks and lstrip_blocks). Private to chat/jinja. */
#pragma once

#include "chat/jinja/pool.h"
#include "data/base/err.h"

enum token_kind {
    TOKEN_END,
    TOKEN_TEXT,            // between tags
    TOKEN_PRINT_BEGIN, TOKEN_PRINT_END, TOKEN_BLOCK_BEGIN, TOKEN_BLOCK_END,
    TOKEN_NAME, TOKEN_STRING, TOKEN_INT, TOKEN_FLOAT,
    TOKEN_OPERATOR,        // text: "==", "(", ...
};

struct token {
    enum token_kind kind;
    const char     *text; // TEXT, NAME, STRING (without quotes, decoded), OPERATOR: n bytes and NUL
    size_t          n;
    long long       number;
    double          real;
    int             line;
};

struct lexer {
    const char  *s;      // (n) the template with its newlines as \n
    size_t       n, at;
    int          line;
    int          inside; // 0: between tags; otherwise the token that ends the tag
    int          depth;  // number of open brackets in the tag
    int          line_starts; // 1: the text begins a line, since the tag before took its newline
    const char  *name;   // the template's, for sentences
    struct pool *pool;
};

/* Begin with text[0..n). */
int lexer_begin(struct lexer *l, const char *text, size_t n, const char *name, struct pool *pool,
                struct err *err);
int lexer_next(struct lexer *l, struct token *out, struct err *err);
