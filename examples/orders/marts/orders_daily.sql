-- pipeline
-- on ducklake://main/orders
-- partitioned daily
-- materialize ducklake://main/orders_daily
-- retry 3 10s

WITH of_the_day AS (                          -- the shop sends some orders twice; here each counts once
  SELECT DISTINCT order_id, customer_id, country, amount
  FROM main.orders
  WHERE wm_partition(ordered_at) = {partition}
)
SELECT country, count(*) AS orders, count(DISTINCT customer_id) AS customers, sum(amount) AS total
FROM of_the_day
GROUP BY country
