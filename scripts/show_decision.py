#!/usr/bin/env python3
"""Says in words why Weighbridge sent a request where it did, from the admin API's /api/decisions.

    show_decision.py --admin http://127.0.0.1:8801 --token-file FILE --route smollm2 [--request-id ID] [--json]

Without --request-id the newest decision of the route. Python 3.8 or newer and nothing else. Exit code 1 when there is
no such decision or the admin API does not answer.
"""

import argparse
import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

FLAGS = {"tie": "the totals were equal, so chance decided",
         "session_moved": "the session's home was left for this request",
         "failed_open": "nothing was usable, so those that may yet work were tried"}


def fetch(admin, token, route):
    """The decisions of a route, newest first."""
    url = f"{admin}/api/decisions?{urllib.parse.urlencode({'route': route})}"
    request = urllib.request.Request(url, headers={"authorization": f"Bearer {token}"} if token else {})
    # The admin API is on this machine, whatever proxy the environment names.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=10) as answer:
        return json.load(answer).get("decisions") or []


def pick(decisions, request_id):
    """The decision of one request, or the newest."""
    for decision in decisions:
        if request_id is None or decision.get("request_id") == request_id:
            return decision
    return None


def figure(value):
    return f"{value:.3f}" if isinstance(value, (int, float)) else "?"


def place(choice):
    return "/".join(str(choice[key]) for key in ("target", "endpoint") if choice.get(key)) or "?"


def sum_of(choice):
    """'1.167 = session_affinity 0.667 (raw 1.000) + …', or nothing where no policy scored."""
    parts = [f"{part.get('policy', '?')} {figure(part.get('weighted'))} (raw {figure(part.get('raw'))})"
             for part in choice.get("parts") or []]
    return f"{figure(choice.get('total'))} = {' + '.join(parts)}" if parts else ""


def explain(decision):
    """The decision as a list of lines. Fields that are missing are left out."""
    if not decision.get("endpoint"):
        lines = ["no endpoint could take it"]
    else:
        lines = [f"{place(decision)} was chosen by {decision.get('route_by', 'the route')}"]
    if (decision.get("attempt") or 1) > 1:
        lines[0] = f"attempt {decision['attempt']}: {lines[0]}"
    if "live" in decision and "candidates" in decision:
        lines[0] += f" among {decision['live']} live of {decision['candidates']} candidates"
    dropped = decision.get("dropped") or {}
    if dropped:
        lines.append("left out: " + ", ".join(f"{count} ({why})" for why, count in sorted(dropped.items())))
    abstained = decision.get("abstained") or {}
    if abstained:
        lines.append("without a say: " + ", ".join(f"{policy} ({why})" for policy, why in sorted(abstained.items())))
    rows = [(place(choice), sum_of(choice)) for choice in (decision, decision.get("runner_up") or {}) if sum_of(choice)]
    width = max((len(name) for name, _ in rows), default=0)
    lines += [f"{name:<{width}}  {total}" for name, total in rows]
    lines += [words for flag, words in FLAGS.items() if decision.get(flag)]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--admin", default="http://127.0.0.1:8801", help="admin address (default: %(default)s)")
    parser.add_argument("--token-file", help="file that holds the admin token")
    parser.add_argument("--route", required=True)
    parser.add_argument("--request-id", help="the x-request-id of the answer; default: the newest")
    parser.add_argument("--json", action="store_true", help="print the record instead of words")
    args = parser.parse_args()
    try:
        token = Path(args.token_file).read_text(encoding="utf-8").strip() if args.token_file else None
        decision = pick(fetch(args.admin.rstrip("/"), token, args.route), args.request_id)
    except (OSError, ValueError) as error:  # an HTTP error is an OSError
        sys.exit(f"show_decision: {args.admin}: {error}")
    if decision is None:
        sys.exit(f"show_decision: no decision is kept for route {args.route}" + (f", request {args.request_id}" if args.request_id else ""))
    print(json.dumps(decision, indent=2) if args.json else "\n".join(explain(decision)))


if __name__ == "__main__":
    main()
