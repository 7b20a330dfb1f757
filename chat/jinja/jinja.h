/* jinja.h: chat templates. Models come with a template in the Jinja language that writes a
 * conversation as text; this room runs such templates as transformers does (jinja2's immutable
 * sandbox with trim_blocks, lstrip_blocks, loop controls and {% generation %}).
 *
 *     jinja_parse(&j, text, n, "chat_template.jinja", &err)
 *     jinja_render(j, variables, &limits, &out, &err)     as often as needed, from any thread
 *     jinja_output_free(&out)
 *     jinja_free(j)
 *
 * The output says where each of its bytes comes from: from which string of the variables, or from
 * the template itself; and whether it was written within {% generation %}. So a caller can tell an
 * assistant's words from a user's, without a search for markers.
 *
 * The language is as large as such templates use it. A statement, filter, test, function or method
 * that is not known is refused by its name and line when the template is parsed; methods, whose
 * object is only known then, when they are called. */
#pragma once

#include "data/json/json.h"

#include <time.h>

struct jinja; // opaque: a parsed template, which rendering does not change

/* Parse text[0..n). `name`, such as the file's, appears in sentences; it is copied. Misuse: a
 * syntax error or an unknown name. The sentence has the line. */
int  jinja_parse(struct jinja **out, const char *text, size_t n, const char *name,
                 struct err *err);
void jinja_free(struct jinja *j); // NULL is fine
/* Whether the template has {% generation %}. */
int  jinja_marks(const struct jinja *j);

/* What a template, somebody else's program, may use. 0: the value in brackets. */
struct jinja_limits {
    size_t   bytes; // of memory, including the output [256 MiB]
    uint64_t steps; // each expression, statement or 64 bytes of text is one [50 million]
    time_t   now;   // the time for strftime_now()
};

struct jinja_span {
    size_t        bytes;
    const json_t *from;       // the string of `variables` that it comes from, or the object whose
                              // key it is; NULL: the template
    int           generation; // written within {% generation %}
};

struct jinja_output {
    char              *text; // (bytes), and a NUL behind
    size_t             bytes;
    struct jinja_span *span; // (n_spans): all of the text, in order; neighbours differ
    size_t             n_spans;
};

/* Run the template with the members of the object `variables` as its names. The caller frees *out,
 * whose spans point into `variables`. Misuse: raise_exception(), an operation that Python refuses,
 * too, and a limit that is reached; the sentence has the line. */
int  jinja_render(const struct jinja *j, const json_t *variables,
                  const struct jinja_limits *limits, struct jinja_output *out, struct err *err);
void jinja_output_free(struct jinja_output *o); // accepts the zero state
