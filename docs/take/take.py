"""How a worker in Python counts calls at the gate, with the standard library:

    answer = take(account="acc_1", endpoint="report", id="job-17")
    if not answer["admitted"]:  # code, message, and mostly retry_after

After an error, repeat it with the same id: the gate counts an id once.
"""

import http.client
import json
import os
import urllib.request

GATE = f"http://{os.environ['TOLLGATE_CONTROL']}/tollgate/"
HEADERS = {"Authorization": "Bearer " + os.environ["TOLLGATE_TAKE_SECRET"], "Content-Type": "application/json"}
OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({})).open  # no proxy gets the secret
# Without the gate, no call is admitted. Write {"admitted": True} to admit all.
UNREACHABLE = {"admitted": False, "status": 503, "code": "unavailable", "message": "Try again later.", "retry_after": 5}


def post(path, body):
    request = urllib.request.Request(GATE + path, json.dumps(body).encode(), HEADERS)
    with OPEN(request, timeout=5) as response:
        return json.load(response)


def take(**call):
    try:
        return post("take", call)
    except (OSError, http.client.HTTPException) as error:
        if getattr(error, "code", 503) < 500:
            raise  # the secret or the call is wrong
        return UNREACHABLE


def settle(call, cost):
    """Set what a call costs, on an endpoint with "cost answer"."""
    post(f"calls/{call}/settle", {"cost": cost})
