package controlplane

import (
	"context"
	"strings"

	"github.com/sealift/sealift/testgrid/lab/daemon"
	"github.com/sealift/sealift/testgrid/lab/upstream"
)

// jobControllers are those that an Indexed Job with a TTL needs, in a namespace with a quota.
const jobControllers = "job-controller,ttl-after-finished-controller,garbage-collector-controller,pod-garbage-collector-controller,resourcequota-controller"

// SigningController signs certificates for clients of the API server, once their requests are approved.
const SigningController = "certificatesigningrequest-signing-controller"

// startWorkers starts the scheduler and the controllers. They serve nothing; their work shows in objects.
func (c *ControlPlane) startWorkers(ctx context.Context, workshop *upstream.Workshop, o Options) error {
	kubeconfig := c.dir.File("kubeconfig")
	if err := WriteKubeconfig(kubeconfig, c.config); err != nil {
		return err
	}
	controllers := o.Controllers
	if o.Jobs {
		controllers = append(strings.Split(jobControllers, ","), controllers...)
	}
	type program struct {
		name string
		args []string
	}
	programs := []program{{"kube-controller-manager", []string{
		"--controllers=" + strings.Join(controllers, ","),
		"--cluster-signing-cert-file=" + c.dir.File(caFile), "--cluster-signing-key-file=" + c.dir.File(caKeyFile),
	}}}
	if o.Jobs {
		programs = append(programs, program{"kube-scheduler", nil})
	}
	for _, program := range programs {
		path, err := workshop.File(ctx, upstream.FileOf{Component: "kubernetes-" + o.Version, Name: program.name})
		if err != nil {
			return err
		}
		args := append([]string{"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=2000"}, program.args...)
		d, err := daemon.Start(daemon.Command{Path: path, Log: c.dir.File(program.name + ".log"), Args: args})
		if err != nil {
			return err
		}
		c.workers = append(c.workers, d)
	}
	return nil
}
