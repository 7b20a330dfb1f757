-- Every phase of the host and of the devices, seconds a step.
-- And the share of a step.
-- The mean of whole steps, and of devices, which run beside the host. The wall time of a phase: two
-- spans at the same time count once. busy_seconds: without what it waited itself. What stands
-- between steps (an evaluation, the wait for the end of all) is shared among them.
WITH n AS (SELECT count(*) AS n, avg(seconds) AS step_seconds FROM breakdown)
SELECT iif(device < 0, 'host', 'devices') AS "where", phase,
    sum(seconds) / n / count(DISTINCT device) AS seconds_per_step,
    sum(busy_seconds) / n / count(DISTINCT device) AS busy_seconds_per_step,
    sum(seconds) / n / count(DISTINCT device) / step_seconds AS share
FROM phase_wall, n WHERE phase NOT IN ('setup', 'redo', 'step')
GROUP BY device < 0, phase ORDER BY device < 0 DESC, 3 DESC
