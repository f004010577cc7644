package main

import (
	"strconv"

	"github.com/rlproxy/rlproxy/commands"
	"github.com/rlproxy/rlproxy/resp"
)

// sections returns INFO's sections about the server and the engine. The commands
// add the others.
func sections(now *live, eng *engines) []commands.Section {
	all := []commands.Section{stats(now.server.Stats(), now.handler, eng.memory)}
	s := commands.Section{Name: "Engine"}
	for _, f := range eng.stats() {
		s.Fields = append(s.Fields, [2]string{f.Name, f.String()})
	}
	return append(all, s)
}

// stats returns the server's counters, under Redis's names where Redis has them.
func stats(st *resp.Stats, h *commands.Handler, memory *resp.Memory) commands.Section {
	logins, denied, keys := h.Denied()
	s := commands.Section{Name: "Stats"}
	for _, f := range []struct {
		name  string
		count int64
	}{
		{"total_connections_received", st.Accepted.Load()},
		{"rejected_connections", st.RejectedMax.Load()},
		{"rejected_by_protected_mode", st.RejectedMode.Load()},
		{"rejected_tls_handshakes", st.HandshakeFails.Load()},
		{"acl_access_denied_auth", logins},
		{"acl_access_denied_cmd", denied},
		{"acl_access_denied_key", keys},
		{"total_commands_processed", st.Commands.Load()},
		{"pipelines", st.Pipelines.Load()},
		{"total_net_input_bytes", st.BytesIn.Load()},
		{"total_net_output_bytes", st.BytesOut.Load()},
		{"mem_clients", memory.Held()},
		{"closed_protocol_error", st.ProtocolErrors.Load()},
		{"closed_http", st.HTTP.Load()},
		{"closed_query_buffer_limit", st.QueryLimit.Load()},
		{"closed_output_buffer_limit", st.OutputLimit.Load()},
		{"closed_maxmemory_clients", st.MemoryLimit.Load()},
		{"closed_not_reading", st.SlowReaders.Load()},
		{"closed_timeout", st.Idle.Load()},
		{"closed_killed", st.Killed.Load()},
		{"closed_panic", st.Panics.Load()},
	} {
		s.Fields = append(s.Fields, [2]string{f.name, strconv.FormatInt(f.count, 10)})
	}
	return s
}
