-- Bytes that a step writes to each device, with padding.
-- The mean of the steps that are kept device by device. What snapshots on the devices' drives write
-- (--snapshot-on devices) is the mean of all steps, a device's equal part. The report adds what that is in a day at
-- the run's pace, and with --endurance how long the drive lasts.
WITH kept AS (SELECT DISTINCT step FROM traffic
        WHERE device >= 0 AND phase IN ('update', 'grad_write')),
    copied AS (SELECT 1.0 * sum(bytes + padding_bytes) / (SELECT count(*) FROM steps)
            / (SELECT count(*) FROM devices) AS bytes FROM traffic
        WHERE phase = 'snapshot' AND link = 'host' AND direction = 'write')
SELECT t.device, d.path,
    1.0 * sum(t.bytes + t.padding_bytes) / (SELECT count(*) FROM kept)
        + coalesce((SELECT bytes FROM copied), 0) AS bytes_per_step
FROM kept JOIN traffic t USING (step) LEFT JOIN devices d USING (device)
WHERE t.device >= 0 AND t.link <> 'network' AND t.direction = 'write' AND t.phase NOT IN ('redo', 'setup', 'eval')
GROUP BY t.device
