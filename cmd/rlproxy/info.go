package main

import (
	"github.com/rlproxy/rlproxy/commands/info"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/resp"
)

// sections returns INFO's sections about the server and the engine. The commands
// add the others.
func sections(now *live, eng *engines) []info.Section {
	return []info.Section{section("Stats", serverStats(now, eng)), section("Engine", eng.stats()),
		section("Policies", eng.store.Stats())}
}

func section(name string, stats []engine.Stat) info.Section {
	s := info.Section{Name: name}
	for i := range stats {
		s.Fields = append(s.Fields, [2]string{stats[i].Name, stats[i].String()})
	}
	return s
}

// serverStats returns what INFO and metrics show of the server, under Redis's names in INFO
// where Redis has them.
func serverStats(now *live, eng *engines) []engine.Stat {
	logins, denied, keys := now.handler.Denied()
	st := now.server.Stats()
	stats := []engine.Stat{
		{Name: "total_connections_received", Value: st.Accepted.Load(), Metric: "connections_accepted_total",
			Help: "Connections of clients that were accepted."},
		refused("rejected_connections", "maxclients", st.RejectedMax.Load()),
		refused("rejected_by_protected_mode", "protected_mode", st.RejectedMode.Load()),
		closed("rejected_tls_handshakes", "tls_handshake", st.HandshakeFails.Load()),
		deniedTo("acl_access_denied_auth", "login", logins),
		deniedTo("acl_access_denied_cmd", "command", denied),
		deniedTo("acl_access_denied_key", "key", keys),
		{Name: "total_commands_processed", Value: st.Commands.Load(), Metric: "commands_total",
			Help: "Commands of clients, of all kinds."},
		{Name: "pipelines", Value: st.Pipelines.Load(), Metric: "pipelines_total",
			Help: "Pipelines: commands that arrived together on one connection."},
		{Name: "config_set_directives", Value: now.changedByCommand.Load(), Metric: "config_set_directives",
			Help: "Directives that CONFIG SET has changed since the configuration was last read."},
		{Name: "config_last_reload_failed", Value: oneIf(now.reloadFailed.Load()), Metric: "config_last_reload_failed",
			Help: "1 if the last reload failed, so that the configuration before is still in effect, else 0."},
		{Name: "total_net_input_bytes", Value: st.BytesIn.Load(), Metric: "client_received_bytes_total",
			Help: "Bytes that clients have sent."},
		{Name: "total_net_output_bytes", Value: st.BytesOut.Load(), Metric: "client_sent_bytes_total",
			Help: "Bytes that were sent to clients."},
	}
	return append(stats, connectionStats(st, eng.memory)...)
}

// oneIf returns 1 for true, and 0 for false.
func oneIf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// connectionStats returns the part of serverStats about connections that are open or were
// closed, and the memory that they take.
func connectionStats(st *resp.Stats, memory *resp.Budget) []engine.Stat {
	return []engine.Stat{
		{Name: "connections_open", Value: st.Current.Load(), Metric: "connections",
			Help: "Connections of clients that are open."},
		{Name: "mem_clients_max", Value: memory.Limit(), Metric: "client_memory_max_bytes",
			Help: "The setting maxmemory-clients."},
		{Name: "mem_clients", Value: memory.Reserved(), Metric: "client_memory_bytes",
			Help: "Bytes of commands and replies of all clients together."},
		closed("closed_by_client", "client", st.Left.Load()),
		closed("closed_protocol_error", "protocol_error", st.ProtocolErrors.Load()),
		closed("closed_http", "http", st.HTTP.Load()),
		closed("closed_query_buffer_limit", "query_buffer_limit", st.QueryLimit.Load()),
		closed("closed_output_buffer_limit", "output_buffer_limit", st.OutputLimit.Load()),
		closed("closed_maxmemory_clients", "maxmemory_clients", st.MemoryLimit.Load()),
		closed("closed_not_reading", "not_reading", st.SlowReaders.Load()),
		closed("closed_timeout", "timeout", st.Idle.Load()),
		closed("closed_killed", "killed", st.Killed.Load()),
		closed("closed_panic", "panic", st.Panics.Load()),
	}
}

func refused(name, reason string, n int64) engine.Stat {
	return engine.Stat{Name: name, Value: n, Metric: "connections_refused_total", Reason: reason,
		Help: "Connections that were refused before they could send anything, by reason."}
}

func closed(name, reason string, n int64) engine.Stat {
	return engine.Stat{Name: name, Value: n, Metric: "connections_closed_total", Reason: reason,
		Help: "Accepted connections that have ended, by reason."}
}

func deniedTo(name, reason string, n int64) engine.Stat {
	return engine.Stat{Name: name, Value: n, Metric: "acl_denials_total", Reason: reason,
		Help: "Commands and logins that the users' rules refused, by reason."}
}
