/* newrun.c: creates a run. First it makes every check that needs no folder (newrun_check.c). Then
 * it fills the folder (creation.h) in this order: settings (newrun_record.c), tokenizer, tokens,
 * devices with the initial parameters (newrun_params.c). */
#include "run/newrun.h"

#include "data/file/file.h"
#include "data/base/machine.h"
#include "run/folder/creation.h"
#include "run/folder/settings.h"
#include "run/folder/spares.h"
#include "run/loop/training.h"
#include "run/newrun_check.h"
#include "run/newrun_params.h"
#include "run/newrun_record.h"
#include "run/ranks/job_run.h"
#include "run/sources/source.h"

/* Send a notice if the drives had room for few spare slots only. */
static int notice_spares(struct session *s, struct err *err)
{
    if (s->spares != RUN_SPARES_FEW || s->o.spare_slots != TRAIN_SPARES_AUTO)
        return 0;
    return session_notice(s, "the drives have little free space, so spare slots are few and steps "
                          "commit more often (--spare-slots)", err);
}

/* Conversations: how many there are is known only now, and may be too much for the memory. */
static int add_chat(struct session *s, const struct newrun *n, struct tokenizer *tok,
                    struct err *err)
{
    struct budget plan;
    int           rc = chat_files_add(s, n->chat, tok, err);

    return rc ? rc : training_plan_here(&plan, s, source_rows(s), err);
}

/* Add the tokenizer to RUN, and the rows that are encoded with it. */
static int add_tokenizer(struct session *s, const struct newrun *n, struct err *err)
{
    char              path[SESSION_PATH + 16], notice[512];
    struct tokenizer *tok = NULL;
    int32_t           pad;
    int               rc;

    snprintf(path, sizeof path, "%s/tokenizer", s->dir);
    if (file_make_folder(path))
        return err_set(err, -errno, "mkdir %s: %s", path, strerror(errno));
    if ((rc = tokenizer_take(n->tokenizer, path, notice, sizeof notice, err)) ||
        (*notice && (rc = session_notice(s, notice, err))) ||
        (rc = tokenizer_keep_class(n->tokenizer, path, err)) ||
        (rc = tokenizer_open(&tok, path, err)))
        return rc;
    rc = settings_set(s->log, err, "endoftext=%ld\nbegintext=%ld", (long)tokenizer_endoftext(tok),
                      (long)tokenizer_begin(tok));
    rc = rc ? rc : session_keep_tokenizer(s, tok, err);
    pad = tokenizer_pad(tok, n->config.vocab);
    if (!rc && arch_classifies(&n->config) && !settings_has(s->log, "config.pad") &&
        pad != tokenizer_endoftext(tok)) // the default if nothing is stored
        rc = settings_set(s->log, err, "config.pad=%ld", (long)pad);
    if (!rc && n->n_examples)
        rc = task_files_add(s, n->examples, n->n_examples, n->epochs, tok, err);
    if (!rc && n->chat && n->chat->chat)
        rc = chat_template_keep(n->chat->chat, path, err);
    rc = rc ? rc : session_keep_template(s, err);
    rc = rc ? rc : session_keep_files(s, err);
    if (!rc && n->chat)
        rc = add_chat(s, n, tok, err);
    tokenizer_close(tok);
    return rc;
}

static int add_corpus(struct session *s, const struct corpus_opts *o, struct err *err)
{
    int rc = corpus_add(s, o, err);

    rc = job_run_in_time(s->ranks.comm, rc, err);
    return rc ? rc : corpus_clear_others(s, err);
}

/* Fill the folder, and check that all ranks have read the same data. */
static int fill_folder(struct creation *place, struct session *s, const struct newrun *n,
                       struct err *err)
{
    int rc = runlog_begin(s->log, err);

    if (rc || (rc = runlog_end(s->log, newrun_record(s, n, err), err)) ||
        (n->tokenizer && (rc = add_tokenizer(s, n, err))) ||
        (n->corpus && (rc = add_corpus(s, n->corpus, err))) ||
        (rc = newrun_params(s, n, err)))
        return rc;
    place->devices = 1;
    rc = notice_spares(s, err);
    return rc ? rc : job_run_alike(s, err);
}

/* Turn the folder into a run. With several ranks, all folders are completed first, then rank 0's
 * becomes a run. From then on the other ranks' folders are not removed after an error, because
 * job_run_finish completes them. */
static int keep(struct creation *place, struct session *s, struct comm *comm, struct err *err)
{
    int first = s->ranks.rank == 0, rc = creation_close(place, s, err);

    place->kept = !rc && !first;
    if (!rc && comm)
        rc = comm_share(comm, NULL, 0, NULL, err); // wait: all folders are complete
    if (!rc && first)
        rc = creation_name(place, err);
    if (!rc && comm)
        rc = comm_share(comm, NULL, 0, NULL, err); // wait: rank 0's folder is a run
    return rc || first ? rc : creation_name(place, err);
}

/* Check a run with training data before anything is created: make all checks that training would
 * make. *acts: the activations that its devices need room for. */
static int check_training(struct session *s, const struct newrun *n, struct run_acts *acts,
                          struct err *err)
{
    struct budget plan;

    s->o.seq = s->o.seq ? s->o.seq : arch_usual_seq(&n->config);
    s->o.threads = threads_here(s->o.threads);
    s->o.schedule_steps = s->o.schedule_steps ? s->o.schedule_steps : s->o.steps;
    snprintf(s->dir, sizeof s->dir, "%s", n->dir);
    int rc = job_run_groups(s, err);
    rc = rc ? rc : job_run_alike(s, err);
    rc = rc ? rc : session_config(s, err);
    rc = rc ? rc : training_plan_here(&plan, s, newrun_dev_rows(n), err);
    if (!rc && (rc = spares_choose(s, 1, err)) > 0)
        rc = training_plan_here(&plan, s, newrun_dev_rows(n), err);
    *acts = s->run.acts;
    return rc;
}

/* Check a run without training data: only the room for its devices matters. */
static int check_room(struct session *s, const struct newrun *n, struct err *err)
{
    snprintf(s->dir, sizeof s->dir, "%s", n->dir);
    int rc = session_config(s, err);
    rc = rc ? rc : spares_choose(s, 1, err);
    return rc < 0 ? rc : 0;
}

/* Nothing is made. After a stop, and when the time of the process is up, tokens stay for the next
 * process. */
static void give_up(struct creation *place, struct session *s, int rc, struct err *err)
{
    if (!err_goes_on(rc, err))
        creation_give_up(place, s);
    else if (creation_leave(place, s) && err->stopped)
        err_stopped(err, "stopped; the same command goes on behind the tokens that are left in %s",
                    place->dir);
}

int newrun_create(const struct newrun *n, struct err *err)
{
    // the caller keeps the options: has_opts is 0
    struct session s = { .config = n->config, .o = *n->o, .events = n->events,
                         .ranks = { .comm = n->comm, .size = n->comm ? n->comm->size : 1,
                                    .rank = n->comm ? n->comm->rank : 0 } };
    struct creation    place = CREATION_NONE;
    struct run_acts acts = { 0 };
    int             rc = newrun_check(n, err);

    if (n->chat)
        s.rows = n->chat->pairs        ? SESSION_PAIRS
                 : n->chat->o->packing ? SESSION_PACKED
                                       : SESSION_PADDED;
    if (n->chat && n->chat->pairs)
        s.pairs = pairs_opts_of(n->chat->pairs, n->o);
    if (!rc && (newrun_has_data(n) || n->n_examples || n->chat))
        rc = check_training(&s, n, &acts, err);
    else if (!rc)
        rc = check_room(&s, n, err);
    events_kill_costs(n->events, "leaves %s incomplete; the same command then begins anew, or "
                      "goes on behind the tokens that were kept", n->dir);
    if (!rc && !(rc = job_run_id(&s, err)) &&
        !(rc = creation_claim(&place, &s, n->dir, n->corpus != NULL, err)) &&
        !(rc = newrun_names(&s.o, err)) && !(rc = session_config(&s, err))) {
        s.run.acts = acts;
        s.run.home = place.dir;
        rc = fill_folder(&place, &s, n, err);
        rc = rc ? rc : moved_note(&s.run, err);
        rc = rc ? rc : keep(&place, &s, n->comm, err);
    }
    if (rc)
        give_up(&place, &s, rc, err);
    session_close(&s);
    events_kill_costs(n->events, NULL);
    return rc;
}
