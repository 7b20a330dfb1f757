-- Bytes that crossed each link in a step, by class and direction.
-- Of all devices together. Runs of older versions count snapshots, and what is read in the
-- background, as states: by their phases these are classes of their own here.
-- The mean, the least and the most of all steps that were applied and not done again. The report
-- adds what mode and model say it must be (computed). Most steps move the same: what steps moved is
-- compared as a text (what), and those that are alike are added up from one of them.
WITH moved AS MATERIALIZED (SELECT step,
        group_concat(phase || link || class || direction || bytes || '+' || padding_bytes) AS what
        FROM traffic WHERE phase <> 'setup' AND phase <> 'eval' GROUP BY step
        HAVING NOT max(phase = 'redo')),
    alike AS MATERIALIZED (SELECT min(step) AS step, count(*) AS times FROM moved
        WHERE step IN (SELECT step FROM steps WHERE NOT skipped) GROUP BY what),
    one AS (SELECT step, times, link,
        iif(phase IN ('snapshot', 'scrub') AND class = 'states', phase, class) AS class, direction,
        sum(bytes) AS bytes, sum(padding_bytes) AS padding_bytes
        FROM alike CROSS JOIN traffic USING (step)
        WHERE phase NOT IN ('setup', 'eval') GROUP BY step, link, 4, direction),
    n AS (SELECT sum(times) AS n FROM alike)
SELECT link, class, direction, n AS steps, 1.0 * sum(times * bytes) / n AS bytes_per_step,
    iif(sum(times) < n, 0, min(bytes)) AS least, max(bytes) AS most,
    1.0 * sum(times * padding_bytes) / n AS padding_bytes_per_step
FROM one, n GROUP BY link, class, direction ORDER BY link, class, direction
