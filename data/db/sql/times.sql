-- How long a step takes: median and quartiles, mean of all.
-- Seconds. A steady step follows a step of the same process without an evaluation or a skipped
-- step between: it waits for an update, as most do. Quartiles are interpolated between the two
-- nearest, as in the view steady_quantiles. tokens_per_second: at the median.
WITH ranked AS (SELECT seconds, tokens, row_number() OVER (ORDER BY seconds) - 1 AS i,
        count(*) OVER () AS n FROM steady_steps),
    parts AS (SELECT count(*) AS steady, min(seconds) AS least,
        sum(seconds * (1 - abs(i - 0.25 * (n - 1))))
            FILTER (WHERE abs(i - 0.25 * (n - 1)) < 1) AS lower_quartile,
        sum(seconds * (1 - abs(i - 0.5 * (n - 1))))
            FILTER (WHERE abs(i - 0.5 * (n - 1)) < 1) AS median,
        sum(seconds * (1 - abs(i - 0.75 * (n - 1))))
            FILTER (WHERE abs(i - 0.75 * (n - 1)) < 1) AS upper_quartile,
        max(seconds) AS most, avg(seconds) AS mean, avg(tokens) AS tokens FROM ranked)
SELECT steady, least, lower_quartile, median, upper_quartile, most, mean,
    tokens / median AS tokens_per_second,
    (SELECT avg(nullif(seconds, 0)) FROM steps) AS mean_of_all
FROM parts WHERE steady > 0
