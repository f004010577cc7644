
# rlproxy answers CONFIG for itself, but the suite means the settings of the Redis that has the
# keys. Only CONFIG RESETSTAT is about both. ::nodes has the suite's own connections to the
# nodes, by their ids.
rename ::redis::__dispatch__raw__ ::redis::__dispatch__suite__
set ::nodes {}
proc ::redis::__dispatch__raw__ {id method argv} {
	if {![string equal -nocase $method config] || $::redis::deferred($id) || [dict exists $::nodes $id]} {
		tailcall ::redis::__dispatch__suite__ $id $method $argv
	}
	if {$::nodes eq ""} {
		foreach port $::env(RL_NODES) {
			set node [redis 127.0.0.1 $port]
			dict set ::nodes $::redis::id $node
		}
	}
	foreach node [dict values $::nodes] { set reply [$node config {*}$argv] }
	if {[string equal -nocase [lindex $argv 0] resetstat]} {
		tailcall ::redis::__dispatch__suite__ $id $method $argv
	}
	return $reply
}
