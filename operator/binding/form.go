package binding

import (
	"maps"

	"github.com/sealift/sealift/operator/shape"
)

// The parts that several bindings share.
var (
	names         = shape.List(shape.Text())
	include       = names.Between(1, 0)
	nameSelector  = shape.Object(shape.Fields{"matchNames": names}, "matchNames")
	labelSelector = shape.Object(shape.Fields{
		"matchLabels": shape.Map(shape.Text()),
		"matchExpressions": shape.List(shape.Object(shape.Fields{
			"key":      shape.Text(),
			"operator": shape.Word("In", "NotIn", "Exists", "DoesNotExist"),
			"values":   names,
		}, "key", "operator")),
	}).Between(1, 2)
	events = shape.List(shape.Word(string(Added), string(Modified), string(Deleted)))
)

var settingsForm = shape.Object(shape.Fields{
	"executionMinInterval": shape.Text(), "executionMinPeriod": shape.Text(), "executionBurst": shape.Integer(),
})

var scheduleForm = shape.Object(shape.Fields{
	"name": shape.Text(), "crontab": shape.Text(), "allowFailure": shape.Bool(),
	"includeSnapshotsFrom": include, "queue": shape.Text(), "group": shape.Text(),
}, "crontab")

var kubernetesForm = shape.Object(shape.Fields{
	"name": shape.Text(), "apiVersion": shape.Text(), "kind": shape.Text(),
	"queue": shape.Text(), "group": shape.Text(), "allowFailure": shape.Bool(), "includeSnapshotsFrom": include,
	"watchEvent": events, "executeHookOnEvent": events,
	"executeHookOnSynchronization": shape.Bool(), "waitForSynchronization": shape.Bool(),
	"keepFullObjectsInMemory": shape.Bool(), "jqFilter": shape.Text(), "resynchronizationPeriod": shape.Text(),
	"nameSelector": nameSelector, "labelSelector": labelSelector,
	"fieldSelector": shape.Object(shape.Fields{
		"matchExpressions": shape.List(shape.Object(shape.Fields{
			"field": shape.Text(), "operator": shape.Word("=", "==", "Equals", "!=", "NotEquals"), "value": shape.Text(),
		}, "field", "operator", "value")),
	}, "matchExpressions"),
	"namespace": shape.Object(shape.Fields{"nameSelector": nameSelector, "labelSelector": labelSelector}).Between(1, 2),
}, "kind")

var some = names.Between(1, 0)

var admissionForm = shape.Object(shape.Fields{
	"name": shape.Text(), "group": shape.Text(), "includeSnapshotsFrom": include,
	"failurePolicy": shape.Word("Ignore", "Fail"), "sideEffects": shape.Word("None", "NoneOnDryRun"),
	"timeoutSeconds": shape.Integer(), "labelSelector": labelSelector,
	"matchConditions": shape.List(shape.Object(shape.Fields{"name": shape.Text(), "expression": shape.Text()}, "name", "expression").Open()),
	"namespace":       shape.Object(shape.Fields{"labelSelector": labelSelector}, "labelSelector"),
	"rules": shape.List(shape.Object(shape.Fields{
		"apiVersions": some, "apiGroups": some, "resources": some,
		"operations": shape.List(shape.Word("CREATE", "UPDATE", "DELETE", "CONNECT", "*")).Between(1, 0),
		"scope":      shape.Word("Cluster", "Namespaced", "*"),
	}, "apiVersions", "apiGroups", "resources", "operations")).Between(1, 0),
}, "name")

var conversionForm = shape.Object(shape.Fields{
	"name": shape.Text(), "group": shape.Text(), "includeSnapshotsFrom": include, "crdName": shape.Text(),
	"conversions": shape.List(shape.Object(shape.Fields{
		"fromVersion": shape.Text(), "toVersion": shape.Text(),
	}, "fromVersion", "toVersion")).Between(1, 0),
}, "name", "crdName", "conversions")

// formV1 is the form of a configuration with configVersion v1.
func formV1(scope Scope) shape.Shape {
	fields := shape.Fields{
		"configVersion": shape.Text(), "settings": settingsForm,
		string(OnSchedule):   shape.List(scheduleForm).Between(1, 0),
		string(OnKubernetes): shape.List(kubernetesForm).Between(1, 0),
		string(OnValidating): shape.List(admissionForm).Between(1, 0),
		string(OnMutating):   shape.List(admissionForm).Between(1, 0),
		string(OnConversion): shape.List(conversionForm).Between(1, 0),
	}
	maps.Copy(fields, orderFields(scope))
	return shape.Object(fields).Between(2, 0)
}

// formV0 is the form without configVersion. Its bindings may have more keys than are read, as they always could.
func formV0(scope Scope) shape.Shape {
	fields := shape.Fields{
		"schedule": shape.List(shape.Object(shape.Fields{
			"name": shape.Text(), "crontab": shape.Text(), "allowFailure": shape.Bool(),
		}, "crontab").Open()),
		"onKubernetesEvent": shape.List(shape.Object(shape.Fields{
			"name": shape.Text(), "kind": shape.Text(), "event": shape.List(shape.Word("add", "update", "delete")),
			"selector": labelSelector.Between(0, 2).OrNull(), "objectName": shape.Text(), "jqFilter": shape.Text(), "allowFailure": shape.Bool(),
			"namespaceSelector": shape.Object(shape.Fields{"matchNames": names, "any": shape.Bool()}).Open().OrNull(),
		}, "kind").Open()),
	}
	maps.Copy(fields, orderFields(scope))
	return shape.Object(fields).Between(1, 0)
}

func orderFields(scope Scope) shape.Fields {
	fields := shape.Fields{}
	for _, t := range ordered[scope] {
		fields[string(t)] = shape.Integer()
	}
	return fields
}
