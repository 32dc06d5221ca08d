// Package channel decides from an index of add-on versions what a cluster runs, and applies it: it replaces kOps's tool
// `channels` with the same files, rules and records, so that a cluster may change tools either way.
//
//	index, err := source.Index(ctx, location, channel) // the add-ons that a channel offers
//	plan, err := cluster.Plan(ctx, entries, options)   // what each means for this cluster, and why
//	err = cluster.Apply(ctx, source, plan, options)    // the cluster gets what is new
//
// An add-on changes only when its entry replaces the record: a user's edits stay until the next version (K-17). The package
// renders no Helm charts, puts no images anywhere, and removes no add-on.
//
// The rules K-1 to K-34 are in docs/reference/kops.md.
package channel
