package rls

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// healthPath is what the methods of the health service begin with.
const healthPath = "/" + "grpc.health.v1.Health/"

// healthService is the health service that Envoy, Kubernetes and load balancers ask. It reports that the process can
// decide, or that it is stopping. It has no streams, which would take places of requests.
type healthService struct {
	grpc_health_v1.UnimplementedHealthServer
	server *Server
}

// Check implements grpc_health_v1.HealthServer.
func (h *healthService) Check(_ context.Context, r *grpc_health_v1.HealthCheckRequest) (
	*grpc_health_v1.HealthCheckResponse, error) {
	if r.Service != "" && r.Service != ratelimit.RateLimitService_ServiceDesc.ServiceName {
		return nil, status.Error(codes.NotFound, "unknown service")
	}
	answer := &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}
	if h.server.draining.Load() || h.server.cfg.Waiting() != "" {
		answer.Status = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	return answer, nil
}
