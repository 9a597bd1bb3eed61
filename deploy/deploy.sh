#!/usr/bin/env bash
# Builds, deploys and checks Penstock on Kubernetes.
#
#   ./deploy.sh build [TAG]           build the image (docker)
#   ./deploy.sh deploy [ENV]          install or upgrade the release penstock-ENV in the current cluster, and wait
#   ./deploy.sh status [ENV]          pods, volumes and services
#   ./deploy.sh url [ENV]             the address of its service
#   ./deploy.sh key [ENV]             the key of the first admin, from the log of the first start
#   ./deploy.sh benchmark [ENV]       penstock bench from inside the cluster (PENSTOCK_KEY=...)
#   ./deploy.sh delete [ENV]          uninstall it; volumes stay
#
# ENV is dev unless given.  values-ENV.yaml beside this script, if there is one, has its values, and
# HELM_ARGS more arguments for helm, such as: HELM_ARGS="--set service.type=LoadBalancer".
# It creates no Kubernetes cluster: use the tool of your provider (eksctl, gcloud, az) for that.
set -euo pipefail
cd "$(dirname "$0")"

command=${1:-help}
environment=${2:-dev}
release=penstock-$environment
namespace=${NAMESPACE:-$release}

need() {
    command -v "$1" > /dev/null || { echo "deploy.sh: $1 is not installed" >&2; exit 1; }
}

case $command in
build)
    need docker
    docker build -f Dockerfile -t "penstock:${2:-latest}" ..
    ;;
deploy)
    need helm
    values=()
    [ -f "values-$environment.yaml" ] && values=(--values "values-$environment.yaml")
    # shellcheck disable=SC2086 # HELM_ARGS are several arguments.
    helm upgrade --install "$release" helm/penstock --namespace "$namespace" --create-namespace --wait --timeout 10m \
        "${values[@]}" ${HELM_ARGS:-}
    ;;
status)
    need kubectl
    kubectl --namespace "$namespace" get statefulset,pod,service,pvc -l "app.kubernetes.io/instance=$release"
    ;;
url)
    need kubectl
    host=$(kubectl --namespace "$namespace" get service "$release" \
        -o jsonpath='{.status.loadBalancer.ingress[0].hostname}{.status.loadBalancer.ingress[0].ip}')
    if [ -n "$host" ]; then echo "http://$host:8080"; else echo "http://$release.$namespace.svc:8080"; fi
    ;;
key)
    need kubectl
    kubectl --namespace "$namespace" logs "statefulset/$release" | sed -n 's/^key //p'
    ;;
benchmark)
    need kubectl
    kubectl --namespace "$namespace" exec "statefulset/$release" -- \
        env PENSTOCK_KEY="${PENSTOCK_KEY:-}" penstock bench --server penstock://127.0.0.1:7070
    ;;
delete)
    need helm
    helm uninstall "$release" --namespace "$namespace"
    ;;
*)
    sed -n "2,/^set /p" "$(basename "$0")" | sed -n 's/^# \{0,1\}//p'
    [ "$command" = help ]
    ;;
esac
