-- What each real drive moved while updates were under way.
-- Read and written, by all devices that share it, in the time in which at least one of them had an
-- update under way; other transfers count as far as they fell into that time.
SELECT drive, devices, sum(seconds) AS seconds, sum(update_bytes) AS update_bytes,
    sum(other_bytes) AS other_bytes,
    sum(update_bytes + other_bytes) / sum(seconds) AS bytes_per_second
FROM drive_rate GROUP BY drive ORDER BY drive
