-- Where a step's time goes, as the training thread lived it.
-- Seconds, the mean of whole steps.
-- The paper's three parts, what runs beside the training thread not counted, and what is none of
-- them; they add up to the step. Of the steady steps whose spans are kept; of all that are kept
-- where none of them is steady (steady 0).
WITH kept AS MATERIALIZED (SELECT b.*, step IN (SELECT step FROM steady_steps) AS steady
        FROM breakdown b)
SELECT count(*) AS steps, steady, avg(seconds) AS seconds, avg(fw) AS forward,
    avg(bw_grad) AS backward_and_gradient_offload,
    avg("update") AS update_and_optimizer_transfers, avg(other) AS other
FROM kept WHERE steady = (SELECT max(steady) FROM kept) GROUP BY steady
