package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/rlproxy/rlproxy/internal/redistest"
)

// readYAML reads the documents of a YAML file.
func readYAML[T any](t *testing.T, path string) (documents []T) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	for d := yaml.NewDecoder(f); ; {
		var document T
		if err := d.Decode(&document); err != nil {
			require.ErrorContains(t, err, "EOF")
			return documents
		}
		documents = append(documents, document)
	}
}

// manifest has the fields of a Kubernetes object that matter here.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Secret   map[string]string `yaml:"stringData"`
	Spec     struct {
		Selector yaml.Node // of pods, which a Service writes in another way
		Ports    []struct {
			TargetPort string `yaml:"targetPort"`
		}
		Template struct {
			Metadata struct{ Labels, Annotations map[string]string }
			Spec     struct {
				Grace          int         `yaml:"terminationGracePeriodSeconds"`
				ServiceLinks   *bool       `yaml:"enableServiceLinks"`
				InitContainers []container `yaml:"initContainers"`
				Containers     []container
				Volumes        []struct {
					Name      string
					ConfigMap struct{ Name string } `yaml:"configMap"`
				}
			}
		}
	}
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

type container struct {
	Image         string
	RestartPolicy string `yaml:"restartPolicy"`
	Command, Args []string
	Ports         []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	Env            []struct{ Name, Value string }
	StartupProbe   probe `yaml:"startupProbe"`
	ReadinessProbe probe `yaml:"readinessProbe"`
	Lifecycle      struct {
		PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
	}
	LivenessProbe probe `yaml:"livenessProbe"`
	VolumeMounts  []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
	Resources struct{ Requests, Limits map[string]string }
	Security  struct {
		RunAsNonRoot         bool `yaml:"runAsNonRoot"`
		ReadOnly             bool `yaml:"readOnlyRootFilesystem"`
		AllowPrivilegeEscape bool `yaml:"allowPrivilegeEscalation"`
	} `yaml:"securityContext"`
}

// readManifests reads the objects of a file, by their kinds.
func readManifests(t *testing.T, path string) map[string]manifest {
	t.Helper()
	parts := make(map[string]manifest)
	for _, m := range readYAML[manifest](t, path) {
		parts[m.Kind] = m
	}
	return parts
}

// selects reports whether the object selects the pods of a Deployment.
func (m *manifest) selects(t *testing.T, pods map[string]string) {
	t.Helper()
	var labels map[string]string
	if m.Kind == "Service" {
		require.NoError(t, m.Spec.Selector.Decode(&labels))
	} else {
		var by struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		require.NoError(t, m.Spec.Selector.Decode(&by))
		labels = by.MatchLabels
	}
	require.Equal(t, labels, pods, "the selector of the %s must match the pods", m.Kind)
}

// inSandbox returns the configuration of a ConfigMap with nodes and ports of this machine.
func inSandbox(t *testing.T, conf string, nodes []*node, c *container) string {
	t.Helper()
	replace := func(from, to string) {
		require.Contains(t, conf, from)
		conf = strings.Replace(conf, from, to, 1)
	}
	for i, n := range nodes {
		replace(fmt.Sprintf("redis://redis-%d.redis:6379", i), n.URL())
	}
	replace(fmt.Sprintf("\nport %d\n", c.Ports[0].ContainerPort), "\nport 0\n")
	replace(fmt.Sprintf("\nhttp-port %d\n", c.Ports[1].ContainerPort), fmt.Sprintf("\nhttp-port %d\n", redistest.FreePort(t)))
	return conf + "backend-timeout 10000\n"
}

// TestManifestRunsAsWritten runs the sidecar of the Kubernetes manifest in the image, with
// the manifest's configuration, as the image's user, which must not write anywhere.
func TestManifestRunsAsWritten(t *testing.T) {
	t.Parallel()
	parts := readManifests(t, "../deploy/kubernetes.yaml")
	deployment := parts["Deployment"]
	pod := deployment.Spec.Template
	deployment.selects(t, pod.Metadata.Labels)
	require.Greater(t, pod.Spec.Grace, 10, "shutdown-timeout")
	require.Len(t, pod.Spec.InitContainers, 1)
	sidecar := pod.Spec.InitContainers[0]
	require.Equal(t, "Always", sidecar.RestartPolicy, "else it is no sidecar")
	require.True(t, sidecar.Security.RunAsNonRoot)
	require.True(t, sidecar.Security.ReadOnly)
	require.Len(t, sidecar.Ports, 2)
	require.Equal(t, sidecar.Ports[1].Name, sidecar.StartupProbe.HTTPGet.Port)
	require.Equal(t, sidecar.StartupProbe, sidecar.LivenessProbe)
	require.Equal(t, pod.Spec.Volumes[0].Name, sidecar.VolumeMounts[0].Name)
	require.Equal(t, parts["ConfigMap"].Metadata.Name, pod.Spec.Volumes[0].ConfigMap.Name)

	// The container's limit is the only number for memory.
	conf := parts["ConfigMap"].Data["rlproxy.conf"]
	require.NotEmpty(t, sidecar.Resources.Limits["memory"])
	require.NotContains(t, sidecar.Resources.Requests, "memory")
	require.NotContains(t, conf, "maxmemory")

	nodes := startNodes(t, 2)
	conf = inSandbox(t, conf, nodes, &sidecar)
	i := newImage(t)
	i.write(t, filepath.Join(sidecar.VolumeMounts[0].MountPath, "rlproxy.conf"), conf, 0o644)
	command := i.command(sidecar.Args...)
	if len(sidecar.Command) > 0 {
		command = slices.Concat(sidecar.Command, sidecar.Args)
	}
	p := i.start(t, command...)
	require.Contains(t, p.Output.String(), "address=0.0.0.0:")
	require.EqualValues(t, 4, dial(t, p.addr).decide(t, "RL.SLIDE k 5 60").remaining)
	require.Equal(t, 1, len(nodes[0].keys(t))+len(nodes[1].keys(t)))
	site := ofProxy(t, p)
	site.url = strings.Replace(site.url, "0.0.0.0", "127.0.0.1", 1)
	code, _ := site.get(t, strings.TrimPrefix(sidecar.LivenessProbe.HTTPGet.Path, "/"), "")
	require.Equal(t, 200, code)
	p.stop(t)
}

// TestFleetRunsAsWritten runs the container of the fleet's Deployment in the image, with the ConfigMap, the Secret, and the
// variables that Kubernetes would add about the Service.
func TestFleetRunsAsWritten(t *testing.T) {
	t.Parallel()
	parts := readManifests(t, "../deploy/kubernetes-fleet.yaml")
	pod := parts["Deployment"].Spec.Template
	for _, kind := range []string{"Deployment", "Service", "PodDisruptionBudget"} {
		m := parts[kind]
		m.selects(t, pod.Metadata.Labels)
	}
	require.Len(t, pod.Spec.Containers, 1)
	c := pod.Spec.Containers[0]
	require.Greater(t, pod.Spec.Grace, 10+c.Lifecycle.PreStop.Sleep.Seconds, "shutdown-timeout after preStop")
	require.Equal(t, c.Ports[0].Name, parts["Service"].Spec.Ports[0].TargetPort)
	require.Equal(t, strconv.Itoa(c.Ports[1].ContainerPort), pod.Metadata.Annotations["prometheus.io/port"])
	require.NotNil(t, pod.Spec.ServiceLinks)
	require.False(t, *pod.Spec.ServiceLinks)

	i := newImage(t)
	password := parts["Secret"].Secret["password"]
	for _, v := range c.Env {
		i.env = append(i.env, v.Name+"="+strings.ReplaceAll(v.Value, "$(PASSWORD)", password))
	}
	i.env = append(i.env, "RLPROXY_PORT=tcp://10.0.0.1:6380", "RLPROXY_SERVICE_HOST=10.0.0.1") // of a pod with links
	conf := inSandbox(t, parts["ConfigMap"].Data["rlproxy.conf"], startNodes(t, 2), &c)
	i.write(t, filepath.Join(c.VolumeMounts[0].MountPath, "rlproxy.conf"), conf, 0o644)
	p := i.start(t, i.command()...)
	stranger, app := dial(t, p.addr), dial(t, p.addr)
	require.Contains(t, fmt.Sprint(stranger.do(t, "RL.SLIDE", "k", "5", "60")), "NOPERM")
	require.Equal(t, status("OK"), app.do(t, "AUTH", "app", password))
	require.EqualValues(t, 4, app.decide(t, "RL.SLIDE k 5 60").remaining)
	require.Contains(t, fmt.Sprint(app.do(t, "CONFIG", "SET", "fail-policy", "open")), "NOPERM")
	site := ofProxy(t, p)
	site.url = strings.Replace(site.url, "0.0.0.0", "127.0.0.1", 1)
	for _, path := range []string{c.ReadinessProbe.HTTPGet.Path, c.LivenessProbe.HTTPGet.Path, "/metrics"} {
		code, _ := site.get(t, strings.TrimPrefix(path, "/"), "")
		require.Equal(t, 200, code, path)
	}
	p.stop(t)
}
