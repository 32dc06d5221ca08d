# shellcheck shell=bash
# The operator of modules.

# sealift_modules CONFIGMAP DEPLOYMENT CLUSTERROLE FILE: gives the modules of the bundle to their operator. FILE becomes two patches. That
# of the Deployment mounts the folders of the modules into the container with the name of the Deployment. It also has what the Installer
# says of modules: sealift_apply writes that into the ConfigMap, in which edits stay. The patch of the ClusterRole lets the operator
# update the definitions of the modules.
sealift_modules() {
    local sealift_reply
    sealift_absolute "$4"
    sealift_ask modules "$1" "$2" "$3" "$sealift_reply"
}
