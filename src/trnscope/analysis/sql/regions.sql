-- Regions of the script beside each other: record_function annotations, then profiler steps.
--
-- An execution belongs to a region when its op was dispatched inside of it, on whichever thread: the backward thread
-- works for the region in which the main thread waits. Regions may nest; each is counted by itself.
--
-- kind            annotation or step
-- name            as given in the script; steps are named by their number
-- times           occurrences
-- executions      launches, all occurrences together
-- device_time_ns  of these executions
-- host_time_ns    length of the occurrences on the virtual host clock, waiting included
WITH region AS (
    SELECT 'annotation' AS kind, name, start_ns, end_ns
    FROM UserAnnotation
    UNION ALL
    SELECT 'step' AS kind, CAST(step AS VARCHAR) AS name, start_ns, end_ns
    FROM Step
),

launch AS (
    SELECT o.host_start_ns, e.device_time_ns
    FROM Execution AS e
    JOIN OpRecord AS o USING (op_id)
),

-- Running totals: what a region holds is the total before its end minus the total before its start
running AS MATERIALIZED (
    SELECT
        host_start_ns,
        count(*) OVER until_here AS executions,
        sum(device_time_ns) OVER until_here AS device_time_ns
    FROM launch
    WINDOW until_here AS (ORDER BY host_start_ns RANGE UNBOUNDED PRECEDING)
)

SELECT
    r.kind,
    r.name,
    count(*) AS times,
    CAST(sum(coalesce(later.executions, 0) - coalesce(sooner.executions, 0)) AS BIGINT) AS executions,
    CAST(sum(coalesce(later.device_time_ns, 0) - coalesce(sooner.device_time_ns, 0)) AS BIGINT) AS device_time_ns,
    CAST(sum(r.end_ns - r.start_ns) AS BIGINT) AS host_time_ns
FROM region AS r
ASOF LEFT JOIN running AS sooner ON sooner.host_start_ns < r.start_ns
ASOF LEFT JOIN running AS later ON later.host_start_ns < r.end_ns
GROUP BY r.kind, r.name
ORDER BY r.kind, min(r.start_ns), max(r.end_ns) DESC, r.name
