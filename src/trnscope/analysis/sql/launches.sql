-- Launch statistics by origin: what a launch costs the host and how long it waits before it runs.
--
-- origin          eager, compiled, copy, collective or fallback
-- launches        executions
-- dispatch_ns     median time the host spent in the dispatch, virtual host clock
-- delay_min_ns, delay_median_ns, delay_p95_ns, delay_max_ns   from submit to start on the device
-- queued          launches that found their stream still busy: the host was ahead of the device
WITH launch AS (
    SELECT
        coalesce(o.origin, 'unknown') AS origin,
        o.host_end_ns - o.host_start_ns AS dispatch_ns,
        e.start_ns - e.submit_ns AS delay_ns,
        coalesce(
            max(e.end_ns) OVER (
                PARTITION BY e.device, e.stream ORDER BY e.start_ns, e.exec_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) > e.submit_ns,
            false
        ) AS queued
    FROM Execution AS e
    LEFT JOIN OpRecord AS o USING (op_id)
)

SELECT
    origin,
    count(*) AS launches,
    quantile_disc(dispatch_ns, 0.5) AS dispatch_ns,
    min(delay_ns) AS delay_min_ns,
    quantile_disc(delay_ns, 0.5) AS delay_median_ns,
    quantile_disc(delay_ns, 0.95) AS delay_p95_ns,
    max(delay_ns) AS delay_max_ns,
    count(*) FILTER (WHERE queued) AS queued
FROM launch
GROUP BY origin
ORDER BY launches DESC, origin
