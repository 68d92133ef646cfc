-- Gaps of each stream: when it had nothing to run between two of its executions, and what it waited for.
--
-- A stream runs in order: a gap lies between the end of one execution and the start of the next one. Its first
-- part, until the host had submitted that next execution, is the host's; the rest is launch latency or another
-- stream's event. The time before the first execution of the window is no gap.
--
-- device, stream   where
-- gaps             how many
-- gap_ns           their sum = host_ns + launch_ns
-- longest          the three longest, each with
--   before_exec_id   execution before the gap
--   after_exec_id, after_op  execution that ended the gap, and its op
--   start_ns         start of the gap, virtual device clock
--   gap_ns = host_ns + launch_ns
WITH ordered AS (
    SELECT
        device,
        stream,
        exec_id,
        op_id,
        name,
        submit_ns,
        start_ns,
        max(end_ns) OVER earlier AS idle_from_ns,
        lag(exec_id) OVER (PARTITION BY device, stream ORDER BY start_ns, exec_id) AS before_exec_id
    FROM Execution
    WINDOW earlier AS (
        PARTITION BY device, stream ORDER BY start_ns, exec_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),

gap AS (
    SELECT
        *,
        start_ns - idle_from_ns AS gap_ns,
        least(greatest(submit_ns - idle_from_ns, 0), start_ns - idle_from_ns) AS host_ns,
        row_number() OVER (PARTITION BY device, stream ORDER BY start_ns - idle_from_ns DESC, exec_id) AS place
    FROM ordered
    WHERE start_ns > idle_from_ns
)

SELECT
    g.device,
    g.stream,
    count(*) AS gaps,
    CAST(sum(gap_ns) AS BIGINT) AS gap_ns,
    CAST(sum(host_ns) AS BIGINT) AS host_ns,
    CAST(sum(gap_ns - host_ns) AS BIGINT) AS launch_ns,
    list(
        {
            before_exec_id: before_exec_id,
            after_exec_id: g.exec_id,
            after_op: coalesce(o.op, g.name),
            start_ns: idle_from_ns,
            gap_ns: gap_ns,
            host_ns: host_ns,
            launch_ns: gap_ns - host_ns
        }
        ORDER BY place
    ) FILTER (WHERE place <= 3) AS longest
FROM gap AS g
LEFT JOIN (SELECT op_id, op FROM OpRecord) AS o ON o.op_id = g.op_id AND g.place <= 3
GROUP BY g.device, g.stream
ORDER BY g.device, g.stream
