"""What `check` says beyond single lines: rules about a header, a header and its body, other files, and the graph.

A rule is one small function: a draft (or all of them, with the lineage) in, findings out. It names the row it keeps, reads what others have
parsed, and never changes it. A rule that needs a line which is malformed says nothing: that line has been told already.
"""

from reactor.domain.rules import bodies, files, headers
from reactor.domain.rules.draft import Draft
from reactor.domain.rules.graph import graph_findings

SCRIPT_RULES = (*headers.RULES, *bodies.RULES, *files.RULES)

__all__ = ["SCRIPT_RULES", "Draft", "graph_findings"]
