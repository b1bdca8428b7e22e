"""DeleteGroups 0-2: forgets groups without members, and where they were.

On disk before it is answered; the name may be used again at once.

Left out: nothing.
"""

from __future__ import annotations

from functools import partial

from appliance.api.handlers.call import Call, Later
from appliance.broker.broker import Broker
from appliance.errors import ApplianceError
from appliance.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

KEY = 42
VERSIONS = (0, 2)

Answer = DeleteGroupsResponse.DeletableGroupResult


def handle(broker: Broker, request: DeleteGroupsRequest, call: Call) -> Later:
    later = Later()
    answers = [Answer(group_id=each) for each in dict.fromkeys(request.groups_names)]
    left = len(answers)

    def done(answer: Answer, error: ApplianceError | None) -> None:
        nonlocal left
        answer.error_code = error.kafka_code if error else 0
        left -= 1
        if not left:
            later.give(DeleteGroupsResponse(results=answers))

    for each in answers:
        try:
            is_shared = broker.share_groups.find(each.group_id) is not None
            owner = broker.share_groups if is_shared else broker.groups
            owner.delete(each.group_id, partial(done, each))
        except ApplianceError as error:
            done(each, error)
    if not answers:
        later.give(DeleteGroupsResponse())
    return later
