-- pipeline
-- on kafka://customers
-- batch customer_id BIGINT, name VARCHAR, country VARCHAR, updated_at TIMESTAMPTZ
-- materialize ducklake://main/customers key=customer_id latest=updated_at
-- debounce 2s max=5s

SELECT customer_id, name, country, updated_at
FROM batch
