-- What the training thread waited for, and for which device.
-- By whose request ended last.
-- Seconds and waits a step, the mean of whole steps; longest: the longest one. device: empty
-- where it was no one device's.
WITH n AS (SELECT count(*) AS n, sum(seconds) AS seconds FROM breakdown)
SELECT phase, device, sum(w.seconds) / n.n AS seconds_per_step,
    1.0 * count(*) / n.n AS waits_per_step, max(w.seconds) AS longest,
    sum(w.seconds) / n.seconds AS share
FROM (SELECT * FROM waits WHERE phase NOT IN ('wait_eval', 'wait_drain')) w, n
GROUP BY phase, device ORDER BY phase, device
