"""What the data plane hands out, as Python sees it."""

from libcpp.vector cimport vector

from appliance.network._connection_list cimport ConnectionFacts as CConnectionFacts
from appliance.network._control_plane_inbox cimport (
    Arrival as CArrival, Closure as CClosure, ListenerState, Question as CQuestion,
)

cdef list handed_arrivals(const vector[CArrival]* arrivals)
cdef list handed_closures(const vector[CClosure]* closures)
cdef list handed_questions(const vector[CQuestion]* questions)
cdef list handed_facts(const vector[CConnectionFacts]* facts)
cdef handed_listener(ListenerState* listener)
