"""The attacks that tests/acceptance/security repeats.

Each row: what was found, what the attacker does, the binary whose tests do it again, and their names as
GoogleTest's --gtest_filter takes them (`*`, `?`, `:` between patterns, those behind `-` are left out). Every
pattern must name a test that exists. A test of an attack belongs to the row of its finding; a new finding gets a
row in the section of the part that is attacked.
"""

# Programs of a host at the offload service and at each other.
OFFLOAD_SERVICE = [
    ("memory of others", "a program makes the offload service read and write other processes' memory",
     "collective_offload_test", "HostileProgram.CannotHaveTheEngineShareAGroupsMemory"),
    ("jobs of others", "a program takes part in another user's job at the offload service",
     "collective_offload_test", "HostileProgram.CannotTakePartInJobsOfOthers"),
    ("shared memory", "a rank makes others access memory outside the shared memory",
     "collective_runtime_test", "RegisteredMemory.*"),
    ("sandbox", "an offload service that was taken over attacks other processes",
     "agent_engine_test", "Sandbox.*:EngineDaemon.HasNoPrivilegesToLose"),
    ("restart of the service", "a killed offload service ends the agent, or does not restart",
     "agent_engine_test", "EngineDaemon.TellsProgramsWhenItIsKilled*:EngineDaemon.TakesItsSocketFromSystemd"),
    ("sizes in plans", "a plan of a hundred bytes asks for 800 GB",
     "collective_offload_test", "HostileProgram.RunsOutOfItsOwnMemoryOnly"),
    ("memory files", "a sparse file uses the offload service's memory, or a shrinking one ends it",
     "collective_offload_test", "HostileProgram.PaysFor*:HostileProgram.CannotMapMore*"),
    ("places at the service", "silent programs, or one user, keep all others from the offload service",
     "collective_offload_test",
     "HostileProgram.GivesWay*:HostileProgram.CannotTakeTheRanks*:HostileProgram.IsWaitedFor*"),
    ("third users of the service", "two user ids take all ranks, or never join",
     "collective_offload_test", "HostileProgram.CannotTakeTheRanksOfAThirdUser*:HostileProgram.MustJoin*"),
    ("debts of a store", "members that do not read make a group's store owe without limit",
     "collective_offload_test", "HostileProgram.PaysForWhatItsStore*:HostileProgram.CannotStoreMore*"),
    ("the real service", "the same against the daemon, and plans in files that never end",
     "agent_engine_test", "EngineDaemon.ServesAThirdUser*:EngineDaemon.CountsWhatAStoreOwes*:AgentJobDirectoryTest.*"),
    ("addresses of ranks", "a program makes the offload service listen or connect anywhere",
     "collective_offload_test", "HostileProgram.CannotChooseWhere*"),
    ("memory of a call", "a call without memory ends the program",
     "collective_runtime_test", "AsyncCalls.*"),
    ("dead ranks", "a rank that has died seems alive through a process that it forked",
     "collective_runtime_test", "*NamesARankThatIsKilledWhileItsChildLives*"),
]

# Strangers on the network of the ranks.
GROUPS = [
    ("proof of a rank", "a stranger joins a group of ranks, or impersonates its store or a rank",
     "collective_transport_test", "StrangerWithoutKey.*:GroupWithoutKey.*:Handshake.*"),
    ("store of a group", "strangers fill the memory of a group's store, or prevent its rendezvous",
     "collective_transport_test", "HostileStranger.*"),
]

# Programs of a host at its agent.
LOCAL_API = [
    ("places at the agent", "one user keeps all others from the agent",
     "agent_local_test",
     "LocalApi.OneUser*:HostilePlanClient.GivesWay*:HostilePlanClient.CannotKeep*"),
    ("flood of reports", "a program's reports make the controller disconnect its host",
     "agent_local_test", "HostilePlanClient.CannotFlood*:HostilePlanClient.CannotReport*"),
    ("plans of others", "a program reads the plan of another user's rank",
     "agent_local_test", "HostilePlanClient.CannotHaveThePlanOfAnotherUser"),
    ("ranks of others", "a program is the first to ask for a rank of another user's job",
     "agent_local_test",
     "HostilePlanClient.CannotHaveAnothers*:HostilePlanClient.LosesARank*:"
     "HostilePlanClient.GetsNothing*:HostilePlanClient.CannotHaveTheJob*"),
    ("elephants of a host", "one user, or an owner of subordinate user ids, takes all elephants",
     "agent_test", "ElephantShares.*:FlowMeterTest.*:AgentTest.AnElephantThatLosesItsPlace*"),
    ("users at the real agent", "two users, subordinate ids and invented sources, with frames written by hand",
     "agent_daemon_test", "AgentUnderAttack.*"),
    ("third users", "two user ids take all places of the agent",
     "agent_local_test",
     "LocalApi.TwoUsers*:LocalApi.FlowsOfNoFabric*:LocalApi.UnreportedFlows*:HostilePlanClient.LeavesPlaces*"),
    ("sources of probes", "300 invented sources end the probes of a host",
     "agent_socket_lab_test", "SocketLab.NoNumberOfSources*"),
    ("containers", "root of a container, or a pod with the engine's user id, reads plans and keys",
     "agent_local_test",
     "HostilePlanClient.HasNoRightsByItsNumber*:HostilePlanClient.CannotHaveJobsThatDoNotUse*:"
     "HostilePlanClient.CannotHaveAnotherContainers*:HostilePlanClient.CannotHaveTheEngineHide*"),
    ("identities", "who a peer is, by its namespaces, cgroup and owner",
     "os_test", "PodOfCgroup.*:LocalPeersTest.*"),
    ("agents that accept nobody", "a stopped agent holds programs that connect",
     "agent_local_test", "LocalApiCall.EndsAt*"),
    ("restart of the agent", "a restarted agent drops the ports of running flows",
     "agent_local_test", "AgentRestart.*"),
]

# What agents, or programs through honest agents, say to the controller.
CONTROLLER = [
    ("work of the controller", "an agent with a valid key stops the controller, or replaces its history",
     "hostile_agents_test", "HostileAgent.*-HostileAgent.*Epoch*:HostileAgent.*Link*:HostileAgent.*Versions*"),
    ("the real controller", "the same with the attacker's own socket, against the real daemon",
     "controller_daemon_test", "DaemonUnderAttack.*"),
    ("epochs", "an agent raises the epoch until pushes have no effect",
     "hostile_agents_test", "HostileAgent.*Epoch*:HostileAgent.*Versions*"),
    ("names of hosts", "an agent speaks of flows, health, NICs and probes of another host",
     "hostile_agents_test", "Security.*"),
    ("clocks", "a clock that was ahead once prevents the controller from starting",
     "controller_store_test", "StoreFileTest.AClock*"),
]

# Links that leave service, and why.
LINKS = [
    ("word of hosts", "all hosts say that links are dead",
     "hostile_agents_test", "HostileAgent.ReportsOfHostsAlone*"),
    ("budget of a feed", "a feed reports every link as dead",
     "hostile_agents_test", "HostileAgent.AFeed*"),
    ("budgets of states", "the same, at the owner of the states of links",
     "controller_test", "Budgets.*"),
    ("word of programs", "a program's retries and standstill accuse links, through an honest agent and controller",
     "link_tests_test", "LinkTester.WhatProgramsClaim*:LinkTester.WhatAllHostsReport*"),
    ("claims on paths", "the same, at the intake of reports",
     "controller_modules_test", "PathHealthIntakeTest.WhatOnlyAProgramSays*"),
    ("claims on sockets", "a program claims retries of its own, or of another user's connection",
     "agent_test", "VerdictBasisTest.*:SocketRepeatsTest.*:CrowdedSamplerTest.*"),
    ("one lying host", "a sender keeps trains back, or a receiver denies them or claims what did not arrive",
     "link_tests_test", "LinkTester.OneLyingHost*:LinkTester.AReceiverThatClaims*:Dead.OneLiar*:Verdict.OneLying*"),
    ("two lying hosts", "two liars of sixteen accuse a link; two of four reach links of their own leaf only",
     "link_tests_test", "*TwoLiars*:LinkTester.LiarsMakeNoTurnLong"),
    ("busy, lossy and cut off hosts", "hosts whose own NIC loses or is dead have links accused",
     "link_tests_test", "LinkTester.AHostThatIsCutOff*:LinkTester.ALossyNic*"),
    ("trains of strangers", "packets that claim to be of a train, on raw sockets",
     "agent_test", "TrainReceiverTest.*:TrainSenderTest.*"),
]

# Flows, rates and paths that liars move.
FLOWS = [
    ("flows of one pair", "2,000 to 16,000 invented flows of one pair, one leaf and all leaves",
     "controller_test", "Flood.*:FloodOfOneHost.*"),
    ("the same at the daemon", "a flood of flows of one pair, with the attacker's own socket",
     "controller_daemon_test", "DaemonUnderAttack.AFloodOfFlowsOfOnePair*"),
    ("rates of others", "flows that do not exist, or claim to send, take the rates of those that do",
     "controller_test", "InventedFlows.*"),
    ("names of jobs", "a host names its flows after a job that it has no rank of",
     "controller_test", "JobNames.OfAStartedJob*"),
    ("models of hashes", "one host contradicts what is known of the switches' hashes",
     "controller_test", "FalseAnswers.*:RehashDetectorTest.CountsWhatOneHost*"),
    ("full pushes", "an agent asks for full pushes without end",
     "controller_modules_test", "Publishing.AnAgentThatAsksForFullPushesWithoutEnd*:Models.AHostContradicts*"),
    ("long requests", "27,000 link reports in one request",
     "controller_api_test", "LinkReportsTest.ManyLinkReports*"),
]

# Answers to probes.
PROBES = [
    ("forged answers", "a stranger who can send ICMP answers the probes of an agent, on a raw socket",
     "agent_probe_lab_test", "ForgedAnswers.*"),
    ("marks of probes", "answers quote another mark, or none",
     "agent_test", "ProberTest.AnswersThatDoNotQuote*:ProberTest.OverIpv6TheNonce*:ProberTest.FirstAnswer*"),
    ("quotes", "marks of probes can be foretold, or are misread where switches quote less",
     "agent_probe_test", "ProbePacket.*:IcmpParser.*"),
]

# HTTP of all daemons.
HTTP = [
    ("loop of the controller", "requests, handshakes and name look-ups block the loop that steers flows",
     "http_test", "HttpThread.*:UserNames.*"),
    ("places of strangers", "strangers who read nothing, or ask without end, keep others from a server",
     "http_test",
     "Http.TheNinth*:Http.StrangersWho*:Http.StrangersThat*:Http.CallersThat*:Http.AnAnswerThatIsReadTooSlowly*:"
     "Http.WhereAllAreBeingAnswered*:ConnectionPlaces.*"),
    ("places at the real daemons", "the same on raw sockets, at the controller and at an agent's liveness",
     "controller_daemon_test", "HttpUnderAttack.StrangersWho*"),
    ("live streams", "one token holds all live streams",
     "controller_daemon_test", "HttpUnderAttack.OneToken*"),
    ("shares of live streams", "the same, at the feed itself",
     "controller_api_test", "LiveApiTest.TheCallerWithTheMost*"),
    ("revoked tokens", "a revoked token keeps its live stream",
     "controller_daemon_test", "HttpUnderAttack.ARevokedToken*"),
    ("ends of streams", "a stream outlives its token or login, or ends with news only",
     "controller_api_test", "GuardedStreamTest.*"),
    ("readiness", "a stranger's requests for the readiness take the time of flows",
     "controller_api_test", "OperatorApiTest.StrangersShare*"),
    ("long answers", "a list of all flows or links blocks the loop, or is one huge answer",
     "controller_api_test", "ListsTest.ALongList*:ListsTest.PagesOf*"),
    ("logins", "a viewer's logins end those of all others",
     "controller_api_test", "HttpGuardTest.ManyLogins*"),
    ("foreign pages", "a page of another server acts, logs in or logs out with an operator's browser",
     "controller_api_test",
     "HttpGuardTest.PagesOfOther*:HttpGuardTest.OnlyACookie*:HttpGuardTest.CookiesAre*:GuardedApiTest.PagesOf*"),
    ("text of callers", "line breaks and escape sequences of callers reach the log and terminals",
     "controller_api_test", "OperatorApiTest.RefusesTextThatIsNotPrintable"),
    ("two topologies", "two topologies with one base are both accepted, and one is lost",
     "controller_topology_test", "TopologyApply.OneOfTwo*"),
]

# The bus, keys and files of the daemons.
BUS_AND_FILES = [
    ("goodbyes", "a peer that ignores its goodbye stays connected",
     "bus_test", "BusUnderAttack.*:PlainBusUnderAttack.*"),
    ("descriptors", "a process without free descriptors aborts",
     "bus_test", "ZmqSockets.*"),
    ("partitions", "after a partition both ends wait for TCP timeouts",
     "bus_partition_test", "ZmqPartition.*"),
    ("secrets", "secrets that others can read or replace are accepted",
     "identity_test", "Identity.FilesOf*:Identity.SecretsAre*"),
    ("key of TLS", "a key of TLS that others can read is accepted",
     "http_test", "Http.TheKeyOfTls*"),
]

SECTIONS = [OFFLOAD_SERVICE, GROUPS, LOCAL_API, CONTROLLER, LINKS, FLOWS, PROBES, HTTP, BUS_AND_FILES]
ATTACKS = [row for section in SECTIONS for row in section]
