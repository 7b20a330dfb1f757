/* tensorboard.c: writes Event messages, one record and one write each.
 *
 *   record: u64 length | u32 masked CRC32C of length | message | u32 masked CRC32C of message
 *   masked: the checksum rotated right by 15 bits, plus 0xa282ead8; all little-endian
 *
 * A message consists of fields. A field is a key, (number << 3 | kind), and a value. Of Protocol
 * Buffers' kinds, only these are used: 0 varint, 1 eight bytes, 2 bytes with a length, 5 four
 * bytes. */
#include "run/folder/tensorboard.h"

#include "data/base/crc32c.h"
#include "data/file/file.h"
#include "data/file/file_walk.h"
#include "data/base/machine.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE_BYTES = 2048, VALUE_BYTES = 256, RECORD_HEAD = 12, RECORD_TAIL = 4 };
enum { KIND_VARINT, KIND_DOUBLE, KIND_BYTES, KIND_FLOAT = 5 };
enum { EVENT_TIME = 1, EVENT_STEP, EVENT_VERSION, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2, SESSION_STATUS = 1, SESSION_START = 1 };

static const char name_head[] = "events.out.tfevents.";

struct tensorboard {
    char                *path;
    int                  fd; // -1: a write failed
    uint64_t             bytes;
    const struct events *events;
};

/* ---- messages ---- */

struct message { size_t n; unsigned char bytes[MESSAGE_BYTES]; };

static void put(struct message *m, const void *bytes, size_t n)
{
    if (n > sizeof m->bytes - m->n) // real messages are far shorter
        n = sizeof m->bytes - m->n;
    memcpy(m->bytes + m->n, bytes, n);
    m->n += n;
}

static void put_varint(struct message *m, uint64_t v)
{
    for (; v > 0x7F; v >>= 7)
        put(m, &(unsigned char){ (unsigned char)(v | 0x80) }, 1);
    put(m, &(unsigned char){ (unsigned char)v }, 1);
}

static void put_key(struct message *m, unsigned number, unsigned kind)
{
    put_varint(m, number << 3 | kind);
}

static void put_bytes(struct message *m, unsigned number, const void *bytes, size_t n)
{
    put_key(m, number, KIND_BYTES);
    put_varint(m, n);
    put(m, bytes, n);
}

static void put_number(struct message *m, unsigned number, uint64_t v)
{
    put_key(m, number, KIND_VARINT);
    put_varint(m, v);
}

/* Append a Summary's value: a tag and a number. */
static void put_value(struct message *summary, const char *tag, double number)
{
    struct message value = { 0 };
    float          f = (float)number; // x86-64 and the format are both little-endian

    put_bytes(&value, VALUE_TAG, tag, strnlen(tag, VALUE_BYTES));
    put_key(&value, VALUE_SIMPLE, KIND_FLOAT);
    put(&value, &f, sizeof f);
    put_bytes(summary, SUMMARY_VALUE, value.bytes, value.n);
}

/* An Event with one more field. step: the position on TensorBoard's axis. */
static struct message event(uint64_t step, unsigned number, const void *bytes, size_t n)
{
    struct message  m = { 0 };
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    double seconds = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    put_key(&m, EVENT_TIME, KIND_DOUBLE);
    put(&m, &seconds, sizeof seconds);
    put_number(&m, EVENT_STEP, step);
    put_bytes(&m, number, bytes, n);
    return m;
}

/* ---- records ---- */

static uint32_t masked(const void *bytes, size_t n)
{
    uint32_t crc = crc32c(0, bytes, n);

    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static int append_record(struct tensorboard *t, const struct message *m, struct err *err)
{
    unsigned char record[RECORD_HEAD + MESSAGE_BYTES + RECORD_TAIL];
    uint64_t      length = m->n;
    uint32_t      head = masked(&length, sizeof length), tail = masked(m->bytes, m->n);
    size_t        n = RECORD_HEAD + m->n + RECORD_TAIL;

    memcpy(record, &length, sizeof length);
    memcpy(record + sizeof length, &head, sizeof head);
    memcpy(record + RECORD_HEAD, m->bytes, m->n);
    memcpy(record + RECORD_HEAD + m->n, &tail, sizeof tail);
    int rc = file_pwrite(t->fd, record, n, t->bytes, t->path, err);
    if (!rc)
        t->bytes += n;
    return rc;
}

/* Append a message. After a failed write, nothing more is written. */
static void add(struct tensorboard *t, const struct message *m)
{
    struct err err = { 0 };

    if (!append_record(t, m, &err))
        return;
    int cut = ftruncate(t->fd, (off_t)t->bytes); // a reader ignores half a record in any case
    close(t->fd);
    t->fd = -1;
    events_notice(t->events, "%s; training goes on, but TensorBoard's file ends here%s", err.text,
                  cut ? ", in the middle of a record" : "");
}

/* ---- opening ---- */

/* Create `path` and all missing folders above it, for the user of the run in run_dir. */
static int make_folders(char *path, const char *run_dir, struct err *err)
{
    struct stat st;
    struct err  unsaid;

    for (char *at = path + 1;; at++) {
        char c = *at;

        if (c && c != '/')
            continue;
        *at = '\0';
        int rc = file_have_folder(path, run_dir, &unsaid);
        if (rc)
            return err_set(err, rc, "--tensorboard: make the folder %s: %s", path, strerror(-rc));
        if (!c)
            break;
        *at = c;
    }
    int why = stat(path, &st) ? errno : S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
    return why ? err_name(err, why, "--tensorboard %s: %s; expected a folder, or a name that is "
                          "free", path, strerror(why))
               : 0;
}

/* The number in a new file's name: the time, but larger than in existing names, even if the clock
 * was set back. TensorBoard reads files in the order of their names. */
static uint64_t next_number(const char *dir)
{
    uint64_t         last = 0, n, now = (uint64_t)time(NULL);
    struct file_walk w;

    file_walk_begin(&w, dir, NULL);
    while (file_walk_next(&w))
        if (!strncmp(w.name, name_head, sizeof name_head - 1) &&
            sscanf(w.name + sizeof name_head - 1, "%10" SCNu64, &n) == 1 && n > last)
            last = n;
    file_walk_end(&w, 0, NULL);
    return now > last ? now : last + 1;
}

static int begin_file(struct tensorboard *t, uint64_t first, struct err *err)
{
    static const char version[] = "brain.Event:2";
    struct message    start = { 0 }, m = event(0, EVENT_VERSION, version, sizeof version - 1);
    int               rc = append_record(t, &m, err);

    if (rc)
        return rc;
    // invalidates older values from this step on
    put_number(&start, SESSION_STATUS, SESSION_START);
    m = event(first + 1, EVENT_SESSION, start.bytes, start.n);
    return append_record(t, &m, err);
}

int tensorboard_is_named(const char *where)
{
    return where && *where && strcmp(where, TENSORBOARD_NONE) && strcmp(where, TENSORBOARD_AUTO);
}

int tensorboard_check(const char *where, struct err *err)
{
    struct stat st;
    char       *slash;

    if (!tensorboard_is_named(where))
        return 0;
    char *dir = file_absolute(where, err);
    if (!dir)
        return -ENOMEM;
    // the folder, or the one around it in which the first missing folder would be made
    while (lstat(dir, &st) && errno == ENOENT && (slash = strrchr(dir, '/')) && dir[1])
        slash[slash == dir] = '\0';
    int why = stat(dir, &st) ? errno : !S_ISDIR(st.st_mode) ? ENOTDIR
              : access(dir, W_OK | X_OK) ? errno : 0;
    int rc = why ? err_name(err, why, "--tensorboard %s: %s: %s; expected a folder, or a name that "
                            "is free", where, dir, strerror(why))
                 : 0;
    free(dir);
    return rc;
}

int tensorboard_open(struct tensorboard **out, const char *where, const char *run_dir,
                     uint64_t first, const struct events *e, struct err *err)
{
    char host[64];

    *out = NULL;
    if (!where || !*where || !strcmp(where, TENSORBOARD_NONE))
        return 0;
    struct tensorboard *t = calloc(1, sizeof *t);
    char *dir = strcmp(where, TENSORBOARD_AUTO) ? file_path(err, "%s", where)
                                                : file_path(err, "%s/tensorboard", run_dir);
    int   rc = t && dir ? 0 : err_set(err, -ENOMEM, "out of memory for TensorBoard's file");

    if (!rc) {
        t->fd = -1;
        t->events = e;
        rc = make_folders(dir, run_dir, err);
    }
    if (!rc) {
        machine_host(host, sizeof host);
        t->path = file_path(err, "%s/%s%010" PRIu64 ".%s.%ld", dir, name_head, next_number(dir),
                            host, (long)getpid());
        rc = t->path ? file_open_own(t->path, O_CREAT | O_EXCL, &t->fd, err) : -ENOMEM;
        if (!rc)
            file_give_owner_of(t->fd, run_dir);
        rc = rc ? rc : begin_file(t, first, err);
    }
    free(dir);
    if (rc)
        tensorboard_close(t);
    else
        *out = t;
    return rc;
}

void tensorboard_close(struct tensorboard *t)
{
    if (!t)
        return;
    file_close(t->fd);
    free(t->path);
    free(t);
}

/* ---- values ---- */

void tensorboard_step(struct tensorboard *t, const struct training_step *s, double seconds,
                      uint64_t moved)
{
    const struct step_result *r = s->result;
    struct message            summary = { 0 };

    if (!t || t->fd < 0)
        return;
    put_value(&summary, "train/loss", r->loss);
    put_value(&summary, "train/learning_rate", r->lr);
    put_value(&summary, "train/gradient_norm", r->grad_norm);
    put_value(&summary, "train/clip_factor", r->clip_factor);
    if (r->rewards.pairs) {
        put_value(&summary, "train/rewards/chosen", r->rewards.chosen);
        put_value(&summary, "train/rewards/rejected", r->rewards.rejected);
        put_value(&summary, "train/rewards/accuracies", r->rewards.accuracy);
        put_value(&summary, "train/rewards/margins", r->rewards.chosen - r->rewards.rejected);
    }
    if (r->skipped)
        put_value(&summary, "train/skipped", 1);
    if (seconds > 0) {
        put_value(&summary, "speed/step_seconds", seconds);
        put_value(&summary, "speed/tokens_per_second", (double)r->tokens / seconds);
    }
    if (moved && seconds > 0)
        put_value(&summary, "devices/bytes_per_second", (double)moved / seconds);
    if (s->hidden >= 0)
        put_value(&summary, "devices/hidden_share", s->hidden);
    put_value(&summary, "memory/peak_resident_bytes", (double)s->rss_peak);
    struct message m = event(s->step + 1, EVENT_SUMMARY, summary.bytes, summary.n);
    add(t, &m);
}

void tensorboard_evaluation(struct tensorboard *t, const struct training_evaluation *e)
{
    struct message summary = { 0 };

    if (!t || t->fd < 0)
        return;
    for (size_t i = 0; i < e->n; i++) {
        char tag[64];

        snprintf(tag, sizeof tag, "eval/%s", e->value[i].name);
        put_value(&summary, tag, e->value[i].value);
    }
    struct message m = event(e->step + 1, EVENT_SUMMARY, summary.bytes, summary.n);
    add(t, &m);
}
