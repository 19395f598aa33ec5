-- pipeline
-- on kafka://orders
-- batch order_id BIGINT, customer_id BIGINT, country VARCHAR, amount DECIMAL(12,2), ordered_at TIMESTAMPTZ
-- partitioned daily event_time=$.ordered_at
-- materialize ducklake://main/orders append
-- debounce 1s max=3s

SELECT order_id, customer_id, country, amount, ordered_at,
  _source_partition, _offset                  -- where it came from: no two rows have the same place
FROM batch
