-- Host time per thread and category, on the virtual host clock.
--
-- thread     system thread id
-- category   dispatch, python, sync or copy
-- intervals  how many
-- host_ns    sum of their lengths
-- uncertain_ns  part of host_ns in which threads could not be ordered
SELECT
    thread,
    category,
    count(*) AS intervals,
    CAST(sum(end_ns - start_ns) AS BIGINT) AS host_ns,
    CAST(coalesce(sum(end_ns - start_ns) FILTER (WHERE uncertain), 0) AS BIGINT) AS uncertain_ns
FROM HostInterval
GROUP BY thread, category
ORDER BY min(min(start_ns)) OVER (PARTITION BY thread), thread, host_ns DESC, category
