-- The breakdown along the run, in at most 100 pieces.
-- Seconds a step in each.
-- first, last: the piece's steps, from 0. Whole are the first and last 100 and every 1,000th, so
-- pieces in the middle of a long run stand for more steps than they hold.
WITH kept AS MATERIALIZED (SELECT *, row_number() OVER (ORDER BY step) - 1 AS i,
        count(*) OVER () AS n FROM breakdown)
SELECT min(step) AS first, max(step) AS last, count(*) AS steps, avg(seconds) AS seconds,
    avg(fw) AS forward, avg(bw_grad) AS backward_and_gradient_offload,
    avg("update") AS update_and_optimizer_transfers, avg(other) AS other
FROM kept GROUP BY i * min(100, n) / n ORDER BY first
