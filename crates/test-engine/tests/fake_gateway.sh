#!/bin/sh
# Stands in for the gateway in the tests of the harness: reads the configuration, says where it listens, waits.
[ "$1 $2 $4" = "serve --config --ready-file" ] || { echo "bad arguments: $*" >&2; exit 64; }
config=$3 ready=$5
if grep -q broken "$config"; then
    echo "weighbridge.yaml:1: broken" >&2
    exit 2
fi
trap 'echo "{\"event\": \"drained\"}"; exit 3' TERM
echo "not JSON"
echo '{"request_id": "r1", "status": 200}'
printf '{"listen": "%s", "admin": "%s", "pid": %d}' "$FAKE_LISTEN" "$FAKE_LISTEN" $$ >"$ready.part"
mv "$ready.part" "$ready"
while :; do
    if grep -q changed "$config"; then
        echo '{"event": "reloaded"}'
    fi
    sleep 0.05
done
