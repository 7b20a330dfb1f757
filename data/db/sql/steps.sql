-- The run in one row: steps, tokens, losses, memory.
-- first, last: steps from 0, and the losses of these two, empty where that is no number. Of
-- finite_steps the loss is one: finite_first to finite_last, with their losses. seconds_per_step:
-- the mean of all steps, with what each did but evaluations. peak_rss: bytes, the most that the
-- process ever held.
WITH finite AS (SELECT step, loss FROM steps WHERE abs(loss) < 9e999)
SELECT count(*) AS steps, min(step) AS first, max(step) AS last, sum(skipped) AS skipped,
    sum(clipped) AS clipped, sum(tokens) AS tokens,
    avg(nullif(seconds, 0)) AS seconds_per_step,
    sum(tokens) FILTER (WHERE seconds > 0) / nullif(sum(seconds), 0) AS tokens_per_second,
    (SELECT loss FROM steps ORDER BY step LIMIT 1) AS first_loss,
    (SELECT loss FROM steps ORDER BY step DESC LIMIT 1) AS last_loss,
    (SELECT count(*) FROM finite) AS finite_steps,
    (SELECT min(step) FROM finite) AS finite_first,
    (SELECT max(step) FROM finite) AS finite_last,
    (SELECT loss FROM finite ORDER BY step LIMIT 1) AS finite_first_loss,
    (SELECT loss FROM finite ORDER BY step DESC LIMIT 1) AS finite_last_loss,
    max(peak_rss) AS peak_rss
FROM steps
