-- Where it would go if nothing overlapped: each part's own time.
-- Seconds a step, the mean of whole steps: what forward took and the reads of parameters for it;
-- backward and the writes of gradients; updates with the optimizer's traffic.
SELECT sum(steps) AS steps, sum(fw * steps) / sum(steps) AS forward,
    sum(bw_grad * steps) / sum(steps) AS backward_and_gradient_offload,
    sum("update" * steps) / sum(steps) AS update_and_optimizer_transfers
FROM breakdown_serial HAVING sum(steps) > 0
