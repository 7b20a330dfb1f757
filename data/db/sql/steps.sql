-- The run in one row: steps, tokens, losses, memory.
-- first, last: steps from 0. seconds_per_step: the mean of all steps, with what each did but
-- evaluations. peak_rss: bytes, the most that the process ever held.
SELECT count(*) AS steps, min(step) AS first, max(step) AS last, sum(skipped) AS skipped,
    sum(clipped) AS clipped, sum(tokens) AS tokens,
    avg(nullif(seconds, 0)) AS seconds_per_step,
    sum(tokens) FILTER (WHERE seconds > 0) / nullif(sum(seconds), 0) AS tokens_per_second,
    (SELECT loss FROM steps WHERE loss IS NOT NULL ORDER BY step LIMIT 1) AS first_loss,
    (SELECT loss FROM steps WHERE loss IS NOT NULL ORDER BY step DESC LIMIT 1) AS last_loss,
    max(peak_rss) AS peak_rss
FROM steps
