-- One steady step, span by span.
-- The whole one whose time is nearest to the median.
-- start, end: seconds since the step began; spans of other steps (of_step) that were under way are in
-- it, too (an update runs into the next step's forward). device -1: the host; of a wait, for_device
-- is whom it was for. busy: seconds of it in which something was under way.
WITH kept AS MATERIALIZED (SELECT process, step, start_ns AS begin, end_ns AS done,
        step IN (SELECT step FROM steady_steps) AS steady
        FROM whole_spans WHERE phase = 'step' AND device = -1),
    ranked AS (SELECT *, row_number() OVER (ORDER BY steady DESC, done - begin) AS i,
        sum(steady) OVER () AS n FROM kept),
    chosen AS MATERIALIZED (SELECT process, step, begin, done FROM ranked
        WHERE i = max(1, (n + 1) / 2) LIMIT 1),
    found AS (SELECT s.* FROM chosen c, whole_spans s
        WHERE s.step BETWEEN c.step - 2 AND c.step + 1 AND s.process IS c.process
        AND s.end_ns > c.begin AND s.start_ns < c.done AND s.phase NOT IN ('setup', 'redo'))
SELECT c.step, s.step AS of_step, s.phase, s.block, s.device, (s.start_ns - c.begin) / 1e9 AS start,
    (s.end_ns - c.begin) / 1e9 AS "end", s.busy_ns / 1e9 AS busy, s.bytes, w.device AS for_device
FROM chosen c, found s LEFT JOIN (SELECT * FROM waits WHERE step BETWEEN
        (SELECT step FROM chosen) - 2 AND (SELECT step FROM chosen) + 1) w
    ON s.device = -1 AND w.step = s.step AND w.phase = s.phase AND w.start_ns = s.start_ns
    AND w.block = s.block
ORDER BY s.device, s.start_ns, s.end_ns
