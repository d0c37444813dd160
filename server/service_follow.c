/* service_follow.c: what a service tells of its stable lane. */
// SPDX-License-Identifier: Apache-2.0
#include "server/service.h"

#include "sched/release/kernel_plan.h"

void service_follow(struct service *service, struct lane *stable)
{
    const struct model *model = lane_model(stable);
    const struct kernels *kernels = lane_kernels(stable);
    struct record plan;
    char hash[SHA256_HEX] = "", numerics[KERNEL_NUMERICS_ROOM];
    service->lane = stable;
    service->isa = isa_name(kernels->isa);
    kernel_numerics(KERNEL_CONTRACT, numerics);
    snprintf(service->numerics, sizeof service->numerics, "%s", numerics);
    snprintf(service->generation, sizeof service->generation, "%.16s", lane_id(stable));
    kernel_plan_write(model->graph, model->manifest, model->kv_type, kernels, &plan);
    if (record_hash(&plan, hash) != OK)
        hash[0] = '\0';
    record_release(&plan);
    snprintf(service->plan, sizeof service->plan, "%.16s", hash);
}
