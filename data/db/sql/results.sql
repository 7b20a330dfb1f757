-- What evaluations gave, by measure: the first value, the last, the best.
-- Steps are from 0. value: the one that counts, which is that of the best model where the run keeps
-- it, and otherwise the last one. better: of a loss, of an error and of the reward of rejected
-- answers the smaller value; of all else the larger. The best is the first of equal ones, and a
-- value that is no number is never the best.
WITH finite AS (SELECT step, name, iif(abs(value) < 9e999, value, NULL) AS value,
        name GLOB 'loss*' OR name GLOB 'perplexity*' OR name GLOB 'mse*'
            OR name = 'rewards/rejected' AS smaller FROM evals),
    counts AS (SELECT coalesce((SELECT CAST(value AS INTEGER) FROM runs WHERE key = 'best.step'),
        (SELECT max(step) FROM evals)) AS step),
    ranked AS (SELECT *, step = (SELECT step FROM counts) AS counts,
        row_number() OVER (PARTITION BY name ORDER BY step) AS first,
        row_number() OVER (PARTITION BY name ORDER BY step DESC) AS last,
        row_number() OVER (PARTITION BY name ORDER BY value IS NULL,
            iif(smaller, value, -value), step) + (value IS NULL) AS best FROM finite)
SELECT name AS measure, iif(max(smaller), 'smaller', 'larger') AS better,
    count(*) AS evaluations,
    max(value) FILTER (WHERE counts) AS value, max(step) FILTER (WHERE counts) AS step,
    max(value) FILTER (WHERE first = 1) AS first_value,
    max(step) FILTER (WHERE first = 1) AS first_step,
    max(value) FILTER (WHERE last = 1) AS last_value, max(step) FILTER (WHERE last = 1) AS last_step,
    max(value) FILTER (WHERE best = 1) AS best_value, max(step) FILTER (WHERE best = 1) AS best_step
FROM ranked GROUP BY name ORDER BY min(step), name
