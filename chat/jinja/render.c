/* render.c: runs a parsed template. Its statements write to a text. */
#include "chat/jinja/jinja.h"
#include "chat/jinja/scope.h"

#include <assert.h>

static enum leave run_write(const struct place *at, const struct node *n, struct text *out);

static const unsigned GENERATION = 1u << 31; // in an origin: written within {% generation %}

static struct value captured(const struct place *at, const struct node *body)
{
    struct text t = { .r = at->r };

    run_write(at, body, &t);
    return text_end(&t);
}

static void block_set(const struct place *at, const struct node *n)
{
    struct place within = *at;

    within.captured = captured(at, n->body);
    scope_set(at, n->name, n->a && !at->r->rc ? eval(&within, n->a) : within.captured);
}

static void member_set(const struct place *at, const struct node *n)
{
    struct value v = eval(at, n->a), of = scope_find(at, n->name);

    if (at->r->rc)
        return;
    if (of.kind != VALUE_NAMESPACE)
        run_fails(at->r, "only members of a namespace() can be set, and %.60s is %s", n->name,
                  value_kind_name(of));
    else
        pairs_put(at->r, of.pairs, value_string(n->member, strlen(n->member)), v);
}

/* Chooses the items by the loop's filter, which sees the names of the round. */
static struct value chosen(const struct place *at, const struct node *n, struct value all)
{
    struct value out = value_list(at->r, all.list.n);
    size_t       to = 0;

    for (size_t i = 0; i < out.list.n && !at->r->rc; i++) {
        struct scope own = { .outer = at->scope };
        struct place round = *at;

        round.scope = &own;
        scope_unpack(&round, n, all.list.item[i]);
        if (value_truth(eval(&round, n->b)))
            out.list.item[to++] = all.list.item[i];
    }
    out.list.n = to;
    return out;
}

static enum leave loop(const struct place *at, const struct node *n, struct text *out)
{
    struct value       all = value_items(at->r, eval(at, n->a)), outer = scope_find(at, "loop");
    struct value_loop *state = run_take(at->r, sizeof *state);
    enum leave         leave = LEAVE_NOT;

    if (n->b && !at->r->rc)
        all = chosen(at, n, all);
    if (at->r->rc || !state)
        return LEAVE_NOT;
    *state = (struct value_loop){ .item = all.list.item, .n = all.list.n, .depth = 1 };
    if (outer.kind == VALUE_LOOP)
        state->depth += outer.loop->depth;
    for (; state->at < state->n && leave != LEAVE_BREAK && run_goes_on(at->r, 1); state->at++) {
        struct scope own = { .outer = at->scope };
        struct place round = *at;
        struct value v = { .kind = VALUE_LOOP };

        round.scope = &own;
        v.loop = state;
        scope_set(&round, "loop", v);
        scope_unpack(&round, n, all.list.item[state->at]);
        leave = run_write(&round, n->body, out);
    }
    if (!all.list.n && n->other)
        return run_write(at, n->other, out);
    return LEAVE_NOT;
}

static void with(const struct place *at, const struct node *n, struct text *out, enum leave *leave)
{
    struct scope own = { .outer = at->scope };
    struct place within = *at;

    within.scope = &own;
    for (size_t i = 0; i < n->n_items && !at->r->rc; i++)
        scope_unpack(&within, n->items[i], eval(at, n->items[i]->a));
    *leave = run_write(&within, n->body, out);
}

static void print(const struct place *at, const struct node *n, struct text *out)
{
    struct value v = value_str(at->r, eval(at, n->a));

    if (!at->r->rc)
        text_value(out, v);
}

static enum leave write_one(const struct place *at, const struct node *n, struct text *out)
{
    struct value v = { .kind = VALUE_MACRO };
    enum leave   leave = LEAVE_NOT;
    size_t       from = out->n;

    switch (n->kind) {
    case NODE_TEXT:       text_value(out, n->value); break;
    case NODE_PRINT:      print(at, n, out); break;
    case NODE_IF:
        return run_write(at, value_truth(eval(at, n->a)) ? n->body : n->other, out);
    case NODE_FOR:        return loop(at, n, out);
    case NODE_SET:        scope_unpack(at, n, eval(at, n->a)); break;
    case NODE_SET_MEMBER: member_set(at, n); break;
    case NODE_SET_BLOCK:  block_set(at, n); break;
    case NODE_WITH:       with(at, n, out, &leave); break;
    case NODE_MACRO:
        v.macro = n;
        scope_set(at, n->name, v);
        break;
    case NODE_GENERATION:
        leave = run_write(at, n->body, out);
        for (size_t i = from; i < out->n; i++)
            out->from[i] |= GENERATION;
        break;
    case NODE_BREAK:    return LEAVE_BREAK;
    case NODE_CONTINUE: return LEAVE_CONTINUE;
    default:            assert(n->kind < NODE_CONST); // a statement
    }
    return leave;
}

static enum leave run_write(const struct place *at, const struct node *n, struct text *out)
{
    enum leave leave = LEAVE_NOT;

    run_sinks(at->r);
    for (; n && leave == LEAVE_NOT && run_goes_on(at->r, 1); n = n->next) {
        at->r->line = n->line;
        leave = write_one(at, n, out);
    }
    run_rises(at->r);
    return leave;
}

/* ---- a rendering ---- */

static int take_output(struct jinja_output *o, const struct run *r, const struct text *t)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n; i++)
        n += !i || t->from[i] != t->from[i - 1];
    *o = (struct jinja_output){ malloc(t->n + 1), t->n, calloc(n + 1, sizeof *o->span), n };
    if (!o->text || !o->span) {
        jinja_output_free(o);
        return err_set(r->err, -ENOMEM, "%s: out of memory for its text", r->name);
    }
    if (t->n)
        memcpy(o->text, t->s, t->n);
    o->text[t->n] = 0;
    for (size_t i = 0, at = 0; i < t->n; i++) {
        uint32_t from = t->from[i] & ~GENERATION;

        at += i && t->from[i] != t->from[i - 1];
        o->span[at].bytes++;
        o->span[at].from = from ? r->from[from] : NULL;
        o->span[at].generation = (t->from[i] & GENERATION) != 0;
    }
    return 0;
}

int jinja_render(const struct jinja *j, const json_t *variables, const struct jinja_limits *limits,
                 struct jinja_output *out, struct err *err)
{
    struct run   r = { .name = j->name, .err = err, .line = 1, .now = limits->now,
                       .most_steps = limits->steps ? limits->steps : 50000000,
                       .pool.limit = limits->bytes ? limits->bytes : (size_t)256 << 20 };
    struct scope root = { 0 };
    struct place at = { .r = &r, .write = run_write, .scope = &root, .root = &root };
    struct text  text = { .r = &r };

    *out = (struct jinja_output){ 0 };
    at.variables = value_from_json(&r, variables);
    if (!r.rc && at.variables.kind != VALUE_DICT)
        run_fails(&r, "the variables must be an object");
    if (!r.rc)
        run_write(&at, j->body, &text);
    if (!r.rc)
        r.rc = take_output(out, &r, &text);
    pool_free(&r.pool);
    return r.rc;
}

void jinja_output_free(struct jinja_output *o)
{
    free(o->text);
    free(o->span);
    *o = (struct jinja_output){ 0 };
}
