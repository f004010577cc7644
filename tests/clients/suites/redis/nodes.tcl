
# rlproxy answers CONFIG for itself, but the suite means the settings of the Redis that has the
# keys. Only CONFIG RESETSTAT is about both.
rename ::redis::__dispatch__raw__ ::redis::__dispatch__suite__
set ::nodes {}
proc ::redis::__dispatch__raw__ {id method argv} {
	set config [string equal -nocase $method config]
	if {!$config || $::redis::deferred($id) || $::redis::addr($id) ne [list $::host $::port]} {
		tailcall ::redis::__dispatch__suite__ $id $method $argv
	}
	if {$::nodes eq ""} {
		foreach port $::env(RL_NODES) { lappend ::nodes [redis localhost $port] }
	}
	foreach node $::nodes { set reply [$node config {*}$argv] }
	if {[string equal -nocase [lindex $argv 0] resetstat]} {
		tailcall ::redis::__dispatch__suite__ $id $method $argv
	}
	return $reply
}
