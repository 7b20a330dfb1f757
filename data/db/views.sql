-- views.sql: what is derived from the tables of run.db, and how. The same for everybody: `siTrain
-- report`, and who opens run.db with sqlite3.
--
-- Spans are in nanoseconds of a clock that runs on while a process lives; those of two processes
-- have nothing to do with each other in time (table processes has what its clock and the calendar
-- said at one instant). Views are in seconds. Steps are counted from 0.

-- Steps of which every span is kept: none is missing or summed (start_ns 0). What followed the last
-- step, an evaluation and the wait for the end of all, stands under the one that would come.
CREATE VIEW whole_steps AS
SELECT step FROM
  (SELECT step FROM whole UNION SELECT DISTINCT step FROM spans WHERE step < 100
   UNION SELECT step FROM steps WHERE step % 1000 = 0
   UNION SELECT max(step) + 1 FROM steps) AS kept
WHERE NOT EXISTS (SELECT 1 FROM spans WHERE spans.step = kept.step AND start_ns = 0);

-- Their spans, with the process that made them. Of a step that was cut off there is nothing but what
-- the next process did again before its own first step. (CASE, since AND would look for the step's own
-- span for each span: 29 s for a step of 15,000.)
CREATE VIEW whole_spans AS
SELECT (SELECT max(process) FROM processes WHERE first_step <= step + CASE WHEN phase <> 'redo'
    THEN 0 ELSE NOT EXISTS (SELECT 1 FROM spans AS s WHERE s.step = spans.step AND s.phase = 'step')
    END) AS process, spans.*
FROM whole_steps CROSS JOIN spans USING (step);

-- Time spent, summed, of all steps: by the host (place 'host') or by all devices together.
CREATE VIEW phase_seconds AS
SELECT step, phase, iif(device = -1, 'host', 'devices') AS place,
  sum(end_ns - start_ns) / 1e9 AS seconds,
  sum(coalesce(busy_ns, end_ns - start_ns)) / 1e9 AS busy_seconds, sum(bytes) AS bytes
FROM spans GROUP BY step, phase, iif(device = -1, 'host', 'devices');

-- The time in which at least one span of a phase was there, by device; busy_seconds: in which
-- something of them was under way, as far as they did not overlap.
CREATE VIEW phase_wall AS
SELECT step, phase, device, sum(wall) / 1e9 AS seconds,
  min(sum(wall), sum(busy)) / 1e9 AS busy_seconds, sum(bytes) AS bytes
FROM
  (SELECT step, phase, device, bytes, coalesce(busy_ns, end_ns - start_ns) AS busy,
     max(0, end_ns - max(start_ns, coalesce(max(end_ns) OVER earlier, 0))) AS wall
   FROM whole_spans
   WINDOW earlier AS (PARTITION BY step, phase, device ORDER BY start_ns, end_ns
                      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
GROUP BY step, phase, device;

-- Steps that say how long a step takes: the first of a process waits for no update, nor does one
-- after an evaluation; one that is skipped has none.
CREATE VIEW steady_steps AS
SELECT s.step, s.seconds, s.tokens FROM steps AS s JOIN steps AS before ON before.step = s.step - 1
WHERE s.seconds > 0 AND NOT s.skipped AND NOT before.skipped
  AND s.step NOT IN (SELECT first_step FROM processes) AND before.step NOT IN (SELECT step FROM evals);

-- Of them, what a part `at` (0 the least, 0.5 the median, 1 the most) took at most, interpolated
-- between the two nearest.
CREATE VIEW steady_quantiles AS
WITH
  ordered AS (SELECT seconds, row_number() OVER (ORDER BY seconds) - 1 AS i, count(*) OVER () AS n
              FROM steady_steps),
  parts(at) AS (VALUES (0.0), (0.25), (0.5), (0.75), (1.0))
SELECT at, n AS steps, sum(seconds * (1 - abs(i - at * (n - 1)))) AS seconds
FROM parts JOIN ordered ON abs(i - at * (n - 1)) < 1 GROUP BY at;

-- The host's spans of steps, and whether they began before the loss was computed.
CREATE VIEW host_spans AS
SELECT w.process, w.step, phase, block, (end_ns - start_ns) / 1e9 AS seconds,
  start_ns < loss_ns AS in_forward, start_ns, end_ns
FROM whole_spans AS w
JOIN (SELECT step, min(start_ns) AS loss_ns FROM whole_spans WHERE phase = 'loss' GROUP BY step)
  USING (step)
WHERE device = -1;

-- What the training thread waited for: how long, for which block's (-1: no one block's), and for
-- whom: the device whose request was the last to end meanwhile (NULL: no one device's).
CREATE VIEW waits AS
SELECT process, step, phase, block,
  (SELECT d.device FROM spans AS d
   WHERE d.step IN (w.step, w.step - 1) AND d.device >= 0
     AND d.end_ns BETWEEN w.start_ns AND w.end_ns
     AND (w.block < 0 OR d.block = w.block OR w.phase = 'wait_gradient')
     AND d.phase IN (CASE w.phase WHEN 'wait_params' THEN 'param_read'
                                  WHEN 'wait_gradient' THEN 'grad_write'
                                  WHEN 'wait_residual' THEN 'grad_write'
                                  ELSE substr(w.phase, 6) END,
                     CASE w.phase WHEN 'wait_update' THEN 'update_params'
                                  WHEN 'wait_params' THEN 'gather'
                                  WHEN 'wait_gradient' THEN 'exchange' END)
   ORDER BY d.end_ns DESC LIMIT 1) AS device,
  (end_ns - start_ns) / 1e9 AS seconds, start_ns, end_ns
FROM whole_spans AS w WHERE device = -1 AND phase LIKE 'wait~_%' ESCAPE '~';

-- The paper's three bars (Smart-Infinity, HPCA 2024) as they were lived, by the training thread:
-- forward with its waits; loss, backward, and what it did and waited to hand gradients over; the
-- update as the time waited for it and for its commit (in mode mem, where it runs on this thread,
-- itself and its commits).
CREATE VIEW breakdown AS
SELECT step, seconds, fw, bw_grad, "update", max(0, seconds - fw - bw_grad - "update") AS other
FROM
  (SELECT s.step, s.seconds,
     coalesce(sum(h.seconds) FILTER (WHERE phase = 'forward'
       OR (phase IN ('wait_params', 'wait_act_write') AND in_forward)), 0) AS fw,
     coalesce(sum(h.seconds) FILTER (WHERE phase IN ('loss', 'backward', 'grad_norm',
         'grad_compress', 'wait_gradient', 'wait_residual', 'wait_act_read')
       OR (phase IN ('wait_params', 'wait_act_write') AND NOT in_forward)), 0) AS bw_grad,
     coalesce(sum(h.seconds) FILTER (WHERE phase IN ('wait_update', 'wait_commit')
       OR (phase IN ('update', 'commit')
           AND (SELECT value FROM runs WHERE key = 'option.mode') = 'mem')), 0) AS "update"
   FROM steps AS s JOIN host_spans AS h USING (step) WHERE s.seconds > 0 GROUP BY s.step);

-- How long devices were at what, all of them side by side, each moment once: where several kinds of
-- work were under way together, it is shared among them by their number.
CREATE VIEW device_time AS
WITH
  work AS
    (SELECT process, start_ns, end_ns, phase, start_ns < loss_ns AS in_forward FROM whole_spans
     JOIN (SELECT step, min(start_ns) AS loss_ns FROM whole_spans WHERE phase = 'loss'
           GROUP BY step) USING (step)
     WHERE device >= 0
       AND phase IN ('param_read', 'gather', 'grad_write', 'exchange', 'act_write', 'act_read',
         'update')),
  ends(process, t, "by", phase, in_forward) AS
    (SELECT process, start_ns, 1, phase, in_forward FROM work
     UNION ALL SELECT process, end_ns, -1, phase, in_forward FROM work),
  slices AS
    (SELECT process, lead(t) OVER o - t AS ns, 1.0 * sum("by") OVER o AS n,
       sum("by" * (phase IN ('param_read', 'gather') AND in_forward)) OVER o AS forward_reads,
       sum("by" * (phase IN ('param_read', 'gather') AND NOT in_forward)) OVER o AS backward_reads,
       sum("by" * (phase IN ('grad_write', 'exchange'))) OVER o AS grad_writes,
       sum("by" * (phase = 'act_write')) OVER o AS act_writes,
       sum("by" * (phase = 'act_read')) OVER o AS act_reads,
       sum("by" * (phase = 'update')) OVER o AS updates
     FROM ends
     WINDOW o AS (PARTITION BY process ORDER BY t ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW))
SELECT process, sum(ns) / 1e9 AS seconds, sum(ns * forward_reads / n) / 1e9 AS forward_reads,
  sum(ns * backward_reads / n) / 1e9 AS backward_reads,
  sum(ns * grad_writes / n) / 1e9 AS grad_writes,
  sum(ns * act_writes / n) / 1e9 AS act_writes, sum(ns * act_reads / n) / 1e9 AS act_reads,
  sum(ns * updates / n) / 1e9 AS updates
FROM slices WHERE n > 0 GROUP BY process;

-- The three bars as if nothing overlapped, seconds of a step: what the thread computes and what
-- devices do, one after the other. By process: updates run into the step after theirs.
CREATE VIEW breakdown_serial AS
WITH computed AS
  (SELECT process, count(DISTINCT step) AS steps,
     coalesce(sum(seconds) FILTER (WHERE phase = 'forward'), 0) AS fw,
     coalesce(sum(seconds) FILTER (WHERE phase IN ('loss', 'backward', 'grad_norm',
       'grad_compress')), 0) AS bw,
     coalesce(sum(seconds) FILTER (WHERE phase IN ('update', 'commit')
       AND (SELECT value FROM runs WHERE key = 'option.mode') = 'mem'), 0) AS "update"
   FROM host_spans GROUP BY process)
SELECT c.process, steps, (fw + coalesce(forward_reads + act_writes, 0)) / steps AS fw,
  (bw + coalesce(backward_reads + grad_writes + act_reads, 0)) / steps AS bw_grad,
  ("update" + coalesce(updates, 0)) / steps AS "update"
FROM computed AS c LEFT JOIN device_time AS d ON d.process IS c.process;

-- What updates do, by device, of a step: seconds in which there was one; of their reads, computing
-- and writes how long each was at work, and how long it stood between its beginning and its end.
CREATE VIEW update_parts AS
SELECT step, device, max(seconds) FILTER (WHERE phase = 'update') AS seconds,
  max(busy_seconds) FILTER (WHERE phase = 'update_read') AS read_busy,
  max(busy_seconds) FILTER (WHERE phase = 'update_compute') AS compute_busy,
  max(busy_seconds) FILTER (WHERE phase = 'update_write') AS write_busy,
  max(seconds - busy_seconds) FILTER (WHERE phase = 'update_read') AS read_wait,
  max(seconds - busy_seconds) FILTER (WHERE phase = 'update_compute') AS compute_wait,
  max(seconds - busy_seconds) FILTER (WHERE phase = 'update_write') AS write_wait
FROM phase_wall WHERE device >= 0 GROUP BY step, device HAVING max(phase = 'update_read');

-- What the overlap is made of. A step that stands alone, as every 1,000th does, is not in it: its
-- updates run into a step of whose waits only sums are kept, and would all look hidden.
CREATE VIEW overlapping AS
SELECT process, device, start_ns, end_ns FROM whole_spans AS s
WHERE ((device >= 0
        AND phase IN ('param_read', 'grad_write', 'update', 'act_read', 'act_write', 'redo',
          'gather', 'exchange'))
    OR (device = -1 AND phase LIKE 'wait~_%' ESCAPE '~' AND phase <> 'wait_eval'))
  AND (step < 100 OR step % 1000 <> 0
       OR EXISTS (SELECT 1 FROM whole AS w WHERE w.step IN (s.step - 1, s.step + 1)));

-- Over time, not over steps, of each process: how long at least one device was busy with training
-- (busy_seconds), how much of that the training thread stood waiting for anything (waited_seconds)
-- and how much it did not (hidden_seconds); wait_seconds: all its waiting. Hidden over busy is what
-- the line of progress calls hidden.
CREATE VIEW overlap AS
WITH
  found AS MATERIALIZED (SELECT * FROM overlapping),
  ends(process, t, busy, waits) AS
    (SELECT process, start_ns, device >= 0, device < 0 FROM found
     UNION ALL SELECT process, end_ns, -(device >= 0), -(device < 0) FROM found),
  slices AS
    (SELECT process, lead(t) OVER o - t AS ns, sum(busy) OVER o > 0 AS busy,
       sum(waits) OVER o > 0 AS waits
     FROM ends
     WINDOW o AS (PARTITION BY process ORDER BY t ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW))
SELECT process, coalesce(sum(ns) FILTER (WHERE busy), 0) / 1e9 AS busy_seconds,
  coalesce(sum(ns) FILTER (WHERE busy AND waits), 0) / 1e9 AS waited_seconds,
  coalesce(sum(ns) FILTER (WHERE busy AND NOT waits), 0) / 1e9 AS hidden_seconds,
  coalesce(sum(ns) FILTER (WHERE waits), 0) / 1e9 AS wait_seconds
FROM slices GROUP BY process;

-- Bytes moved by the time in which at least one transfer of that kind was under way; an update's
-- reads and writes are timed as its parts.
CREATE VIEW device_rate AS
SELECT device, link, direction, phase, sum(bytes) AS bytes, sum(seconds) AS busy_seconds,
  sum(bytes) / sum(seconds) AS bytes_per_second
FROM
  (SELECT step, device, link, direction,
     iif(phase = 'update', 'update_' || direction, phase) AS phase, sum(bytes) AS bytes
   FROM whole_steps CROSS JOIN traffic USING (step) WHERE device >= 0
   GROUP BY step, device, link, direction, phase)
JOIN (SELECT step, device, phase, busy_seconds AS seconds FROM phase_wall)
  USING (step, device, phase)
GROUP BY device, link, direction, phase HAVING sum(seconds) > 0;

-- By process and real drive, which several devices may share (setting drive.DEVICE: its number in the system;
-- runs without it: each device has one of its own): how long at least one update was under way
-- there, and what moved meanwhile, read and written, with padding. Of a transfer of another kind
-- that is under way at both ends of an update only the part between counts, its bytes spread evenly.
CREATE VIEW drive_rate AS
WITH
  moved AS
    (SELECT process, step, device, start_ns, end_ns, phase = 'update' AS updates,
       coalesce((SELECT value FROM runs WHERE key = 'drive.' || device), 'device ' || device)
         AS drive,
       iif(phase = 'update' OR end_ns <= start_ns, 0, 1.0 * bytes / (end_ns - start_ns)) AS rate
     FROM whole_spans
     WHERE device >= 0
       AND phase IN ('update', 'param_read', 'grad_write', 'act_read', 'act_write')),
  ends(process, drive, t, updates, rate) AS
    (SELECT process, drive, start_ns, updates, rate FROM moved
     UNION ALL SELECT process, drive, end_ns, -updates, -rate FROM moved),
  slices AS
    (SELECT process, drive, lead(t) OVER o - t AS ns, sum(updates) OVER o AS updates,
       sum(rate) OVER o AS rate
     FROM ends
     WINDOW o AS (PARTITION BY process, drive ORDER BY t
                  ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)),
  beside AS
    (SELECT process, drive, sum(ns) AS ns, sum(ns * rate) AS bytes FROM slices WHERE updates > 0
     GROUP BY process, drive),
  of_updates AS
    (SELECT m.process, m.drive, sum(t.bytes + t.padding_bytes) AS bytes
     FROM (SELECT DISTINCT process, drive, step, device FROM moved WHERE updates) AS m
     JOIN traffic AS t ON t.step = m.step AND t.device = m.device AND t.phase = 'update'
     GROUP BY m.process, m.drive)
SELECT b.process, b.drive,
  (SELECT group_concat(device, ', ') FROM
     (SELECT DISTINCT device FROM moved AS m WHERE m.drive = b.drive ORDER BY device)) AS devices,
  b.ns / 1e9 AS seconds, u.bytes AS update_bytes, b.bytes AS other_bytes,
  (u.bytes + b.bytes) / (b.ns / 1e9) AS bytes_per_second
FROM beside AS b JOIN of_updates AS u ON u.process IS b.process AND u.drive = b.drive
WHERE b.ns > 0;

CREATE VIEW traffic_per_step AS
SELECT step, link, class, direction, sum(bytes) AS bytes, sum(padding_bytes) AS padding_bytes
FROM traffic WHERE phase NOT IN ('redo', 'setup', 'eval', 'snapshot', 'scrub') GROUP BY step, link, class, direction;

-- What --activations auto or ssdtrain chose, and what came of it: after_seconds is the median of the
-- steady steps until the next choice.
CREATE VIEW choice_outcomes AS
WITH
  lasting AS (SELECT *, lead(step, 1, 1e18) OVER (ORDER BY step) AS until FROM choices),
  ordered AS
    (SELECT c.step, s.seconds, row_number() OVER (PARTITION BY c.step ORDER BY s.seconds) AS i,
       count(*) OVER (PARTITION BY c.step) AS n
     FROM lasting AS c JOIN steady_steps AS s ON s.step > c.step AND s.step < c.until)
SELECT c.step, why, layers, inputs_kept, inputs_offloaded, attentions_kept, attentions_offloaded,
  mlps_kept, mlps_offloaded, kept_bytes, moved_bytes, step_seconds, expected_seconds,
  (SELECT avg(seconds) FROM ordered AS o WHERE o.step = c.step AND i IN ((n + 1) / 2, (n + 2) / 2))
    AS after_seconds
FROM lasting AS c;
