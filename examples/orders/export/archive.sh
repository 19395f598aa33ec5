# pipeline
# on ducklake://main/orders_daily
# partitioned daily

# Keeps, for each day, why its totals were last made anew: the trigger as JSON.
set -eu
mkdir -p .reactor/demo/archive
cp "$WM_TRIGGER_FILE" ".reactor/demo/archive/$WM_PARTITION.json"
