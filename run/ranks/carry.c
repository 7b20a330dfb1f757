/* carry.c: a sending is a stream of bytes: the length of a table, the table, then the data of all
 * files in its order. The table has "f BYTES NAME" for each file, and below it "d OFFSET BYTES" for
 * each range of it that is no hole. All ranks exchange a piece of each stream at a time, as often
 * as the longest stream needs. An end that fails goes on with the exchange, and its bytes are lost.
 */
#include "run/ranks/carry.h"

#include "data/file/file.h"
#include "model/together.h"
#include "run/snapshots/snapshot_files.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 4 << 20, TABLE_MOST = 64 << 20 };

struct end {
    const struct carried *c;
    int      sends, rc;
    uint64_t length;          // of the stream, its 8 first bytes included
    uint64_t at;              // bytes of it that were moved
    char    *table, *line;    // the whole table; the line that is next
    size_t   table_bytes;
    char     first[8];
    int      fd;
    char    *path;            // of the open file
    uint64_t off, left;       // the rest of the open range
    uint64_t moved;           // bytes of files
    char    *piece;
};

static int fail(struct end *e, int rc)
{
    e->rc = e->rc ? e->rc : rc;
    return rc;
}

/* ---- the table ---- */

/* Write the ranges of an open file that are no holes. Returns their bytes. */
static uint64_t ranges_put(FILE *table, int fd, uint64_t bytes)
{
    uint64_t all = 0;

    for (off_t data = 0, hole; (uint64_t)data < bytes; data = hole) {
        data = lseek(fd, data, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            break;
        hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
        if (data < 0 || hole < 0) // a file system without holes
            data = 0, hole = (off_t)bytes;
        hole = (uint64_t)hole > bytes ? (off_t)bytes : hole;
        fprintf(table, "d %" PRIu64 " %" PRIu64 "\n", (uint64_t)data, (uint64_t)(hole - data));
        all += (uint64_t)(hole - data);
    }
    return all;
}

/* rc: of file_put, which has written its sentence. */
struct putting { struct end *e; FILE *table; struct err *err; int rc; };

static int file_put(void *putting, const char *path, uint64_t bytes)
{
    struct putting *p = putting;
    uint64_t        size;
    int             fd, rc = file_open_read(path, &fd, &size, p->err);

    if (!rc && size != bytes)
        rc = err_set(p->err, -EBADMSG, "%s has %" PRIu64 " bytes instead of %" PRIu64, path, size,
                     bytes);
    if (!rc) {
        fprintf(p->table, "f %" PRIu64 " %s\n", bytes, path + strlen(p->e->c->folder) + 1);
        p->e->length += ranges_put(p->table, fd, bytes);
    }
    file_close(fd);
    return p->rc = rc;
}

/* Make the table of a sending end. */
static int table_make(struct end *e, struct err *err)
{
    struct putting p = { e, open_memstream(&e->table, &e->table_bytes), err, 0 };
    int rc = p.table ? snapshot_files_each(e->c->folder, e->c->files, file_put, &p) : -ENOMEM;

    if (p.table && fclose(p.table) && !rc)
        rc = -ENOMEM;
    if (rc == -ENOMEM)
        err_set(err, rc, "out of memory for a list of files");
    else if (rc && !p.rc)
        err_set(err, rc, "%s: its list of files cannot be read", e->c->folder);
    if (!rc && e->table_bytes > TABLE_MOST)
        rc = err_set(err, -E2BIG, "%s has too many ranges of files", e->c->folder);
    e->length += 8 + e->table_bytes;
    e->line = e->table;
    for (int i = 0; i < 8; i++)
        e->first[i] = (char)(e->table_bytes >> 8 * i);
    return fail(e, rc);
}

/* ---- files ---- */

static int file_end(struct end *e, struct err *err)
{
    int rc = 0;

    if (e->fd >= 0 && !e->sends && fsync(e->fd))
        rc = err_set(err, -errno, "flush %s: %s", e->path, strerror(errno));
    if (e->fd >= 0)
        posix_fadvise(e->fd, 0, 0, POSIX_FADV_DONTNEED);
    file_close(e->fd);
    free(e->path);
    e->fd = -1;
    e->path = NULL;
    return rc;
}

static int file_make(struct end *e, const char *name, uint64_t bytes, struct err *err)
{
    const char *as = e->c->db_as && !strcmp(name, "run.db") ? e->c->db_as : name;
    char       *sub;
    int         rc = 0;

    if (!snapshot_files_is_plain(name))
        return err_set(err, -EBADMSG, "another rank sent a file with the name %s", name);
    if (!(e->path = file_path(err, "%s/%s", e->c->folder, as)) || !(sub = file_folder(e->path)))
        return err_set(err, -ENOMEM, "out of memory for the name of a file");
    if (strchr(as, '/') && file_make_folder(sub) && errno != EEXIST)
        rc = err_set(err, -errno, "mkdir %s: %s", sub, strerror(errno));
    free(sub);
    rc = rc ? rc : file_open_own(e->path, O_CREAT | O_EXCL, &e->fd, err);
    if (!rc)
        file_give_owner(e->fd, e->path);
    if (!rc && ftruncate(e->fd, (off_t)bytes))
        rc = err_set(err, -errno, "set the length of %s: %s", e->path, strerror(errno));
    return rc;
}

static int file_begin(struct end *e, const char *name, uint64_t bytes, struct err *err)
{
    uint64_t size;

    if (!e->sends)
        return file_make(e, name, bytes, err);
    e->path = file_path(err, "%s/%s", e->c->folder, name);
    return e->path ? file_open_read(e->path, &e->fd, &size, err) : -ENOMEM;
}

/* Take lines of the table until a range with bytes is open. 0 also at the end of the table. */
static int range_next(struct end *e, struct err *err)
{
    int rc = 0;

    while (!rc && !e->left && e->line && *e->line) {
        char *line = e->line, *end = strchr(line, '\n'), *rest;

        if (!end)
            return err_set(err, -EBADMSG, "another rank sent a table without an end");
        *end = '\0';
        e->line = end + 1;
        uint64_t first = strtoull(line + 1, &rest, 10);
        if (*line == 'd' && *rest == ' ' && e->fd >= 0) {
            e->off = first;
            e->left = strtoull(rest, NULL, 10);
        } else if (*line == 'f' && *rest == ' ') {
            rc = file_end(e, err);
            rc = rc ? rc : file_begin(e, rest + 1, first, err);
        } else {
            rc = err_set(err, -EBADMSG, "another rank sent a table that cannot be read");
        }
    }
    return rc;
}

/* ---- the stream ---- */

/* Move bytes of the files between the piece and the open ranges. */
static int data_move(struct end *e, char *buf, size_t n, struct err *err)
{
    int rc = 0;

    while (n && !rc && !(rc = range_next(e, err))) {
        size_t some = n < e->left ? n : (size_t)e->left;

        if (!some)
            return err_set(err, -EBADMSG, "another rank sent more bytes than its table has");
        rc = e->sends ? file_pread(e->fd, buf, some, e->off, e->path, err)
                      : file_pwrite(e->fd, buf, some, e->off, e->path, err);
        buf += some;
        n -= some;
        e->off += some;
        e->left -= some;
        e->moved += some;
    }
    return rc;
}

/* Bytes of the stream that lie in memory: `what` has n of them, from `at` on. Returns how many of
 * the piece they fill. */
static size_t part_move(struct end *e, char *buf, size_t n, char *what, uint64_t at, size_t bytes)
{
    uint64_t done = e->at - at;
    size_t   some = bytes - (size_t)done < n ? bytes - (size_t)done : n;

    memcpy(e->sends ? buf : what + done, e->sends ? what + done : buf, some);
    e->at += some;
    return some;
}

static int table_take(struct end *e, struct err *err)
{
    uint64_t bytes = 0;

    for (int i = 0; i < 8; i++)
        bytes |= (uint64_t)(unsigned char)e->first[i] << 8 * i;
    if (bytes > TABLE_MOST)
        return err_set(err, -EBADMSG, "another rank sent a table of %" PRIu64 " bytes", bytes);
    e->table_bytes = (size_t)bytes;
    e->line = e->table = calloc(1, e->table_bytes + 1);
    return e->table ? 0 : err_set(err, -ENOMEM, "out of memory for a list of files");
}

/* Move the next n bytes of the stream: out of the piece, or into it. */
static int move(struct end *e, size_t n, struct err *err)
{
    char *buf = e->piece;
    int   rc = 0;

    if (e->at < 8) {
        size_t some = part_move(e, buf, n, e->first, 0, 8);

        buf += some;
        n -= some;
        if (!e->sends && e->at == 8)
            rc = table_take(e, err);
    }
    if (!rc && n && e->at < 8 + e->table_bytes) {
        size_t some = part_move(e, buf, n, e->table, 8, e->table_bytes);

        buf += some;
        n -= some;
    }
    if (!rc && n)
        rc = data_move(e, buf, n, err);
    e->at += n;
    return rc;
}

/* ---- all ends ---- */

static int begin(struct end *e, const struct carried *c, int sends, struct err *err)
{
    *e = (struct end){ .c = c, .sends = sends, .fd = -1, .piece = malloc(PIECE) };
    if (!e->piece)
        return fail(e, err_set(err, -ENOMEM, "out of memory for sending files"));
    return sends ? table_make(e, err) : 0;
}

/* Flush what came; a stream that is at its end has empty files behind its last range, too. */
static void finish(struct end *e, struct err *err)
{
    if (!e->sends && !e->rc && !e->left)
        fail(e, range_next(e, err));
    int rc = file_end(e, err);
    if (!e->sends && !e->rc && !rc)
        rc = file_sync_dir(e->c->folder, err);
    fail(e, rc);
    free(e->table);
    free(e->piece);
}

/* Exchange a piece of each stream. ends: (2 * n) of each sending its sending end, then the other.
 * length: (n). */
static int round_go(struct comm *comm, struct end *ends, size_t n, const uint64_t *length,
                    uint64_t at, struct err *why, struct err *err)
{
    struct comm_peer   *peers = calloc(comm->size, sizeof *peers);
    struct comm_request r = { 0 };
    int                 rc = peers ? 0 : err_set(err, -ENOMEM, "out of memory");

    for (size_t i = 0; i < 2 * n && !rc; i++) {
        struct end *e = &ends[i];
        uint64_t    rest = length[i / 2] > at ? length[i / 2] - at : 0;
        size_t      some = rest < PIECE ? (size_t)rest : PIECE;

        if (!e->c || !some)
            continue;
        if (e->sends && !e->rc)
            fail(e, move(e, some, why));
        if (e->sends)
            peers[e->c->to].send = e->piece, peers[e->c->to].send_bytes = some;
        else
            peers[e->c->from].recv = e->piece, peers[e->c->from].recv_bytes = some;
    }
    rc = rc ? rc : comm_exchange(comm, COMM_FILES, peers, &r, err);
    rc = rc ? rc : comm_wait(comm, &r, INFINITY, err);
    for (size_t i = 0; i < 2 * n && !rc; i++) {
        struct end *e = &ends[i];
        uint64_t    rest = length[i / 2] > at ? length[i / 2] - at : 0;

        if (e->c && !e->sends && rest && !e->rc)
            fail(e, move(e, rest < PIECE ? (size_t)rest : PIECE, why));
    }
    free(peers);
    return rc;
}

int carry_agree(struct comm *comm, int rc, int *failed, struct err *why, struct err *err)
{
    struct { int32_t rc; char text[sizeof why->text]; } own = { .rc = rc }, *all;
    size_t p = 0;
    int    joined;

    *failed = rc;
    if (rc)
        snprintf(own.text, sizeof own.text, "%s", why->text);
    all = comm_collect(comm, &own, sizeof own, &joined, err);
    while (all && p < comm->size && !all[p].rc)
        p++;
    if (all && !rc && p < comm->size)
        *failed = err_set(why, -EIO, "rank %zu: %s", p, all[p].text);
    free(all);
    return joined;
}

/* The lengths of all streams, which their sending ends know. */
static int lengths_share(struct comm *comm, uint64_t *length, const struct end *ends, size_t n,
                         struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < n && !rc; i++) {
        length[i] = ends[2 * i].c && !ends[2 * i].rc ? ends[2 * i].length : 0;
        rc = together_add(comm, &length[i], NULL, err);
    }
    return rc;
}

int carry(struct comm *comm, const struct carried *list, size_t n, const struct watch *watch,
          struct carry_moved *moved, int *failed, struct err *why, struct err *err)
{
    struct end *ends = calloc(2 * n + 1, sizeof *ends);
    uint64_t   *length = calloc(n + 1, sizeof *length), most = 0;
    int         rc = ends && length ? 0 : err_set(err, -ENOMEM, "out of memory"), own = 0;

    for (size_t i = 0; i < n && !rc; i++) {
        if (list[i].from == comm->rank)
            begin(&ends[2 * i], &list[i], 1, why);
        if (list[i].to == comm->rank)
            begin(&ends[2 * i + 1], &list[i], 0, why);
        for (size_t k = 2 * i; k < 2 * i + 2; k++)
            own = own ? own : ends[k].rc;
    }
    rc = rc ? rc : carry_agree(comm, own, failed, why, err); // memory and tables are there, or not
    rc = rc || *failed ? rc : lengths_share(comm, length, ends, n, err);
    for (size_t i = 0; i < n && !rc && !*failed; i++)
        most = length[i] > most ? length[i] : most;
    for (uint64_t at = 0; at < most && !rc; at += PIECE) {
        rc = round_go(comm, ends, n, length, at, why, err);
        struct err unsaid;
        watch_look(watch, at, most, &unsaid); // all go on: a stop is seen between two steps
    }
    own = *failed;
    for (size_t k = 0; k < 2 * n && ends; k++)
        if (ends[k].c) {
            finish(&ends[k], why);
            own = own ? own : ends[k].rc;
            *(ends[k].sends ? &moved->sent : &moved->came) += ends[k].moved;
        }
    free(ends);
    free(length);
    return rc ? rc : carry_agree(comm, own, failed, why, err);
}
