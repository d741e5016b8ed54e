"""Kin: words that stand for each other in tasks and lessons, though they share no letters.

A small thesaurus of what agents are asked to do: code, data, questions, households, shops, offices and travel, in
English and Chinese. It knows trades, not the world: who needs more gives the store an embedding model.
"""

from __future__ import annotations

from collections import defaultdict

from langgraph_reflexion.text.words import stem

GROUPS = """
bracket parenthesis parentheses paren brace 括号
nest depth balance 嵌套
prime 质数 素数
divisor factor divisible multiple
remove delete drop erase discard eliminate 删除
duplicate unique distinct dedupe repeat repeatedly twice 重复 去重
array list vector sequence collection 数组 列表
dictionary map hash hashmap lookup 字典 哈希
key property attribute
sort order rank arrange 排序
reverse invert flip backwards backward 反转 逆序 翻转
rotate turn spin 旋转
palindrome mirror 回文
substring slice segment 子串 切片
overlap overlapping touch intersect 重叠 交集
loop iterate iteration endless infinite cycle 循环 遍历
recursion recursive memo memoize memoise memoization stack 递归
subproblem dynamic memo knapsack table 动态 背包
cache memo stale evict 缓存
integer digit number whole 整数
float double decimal fraction 浮点 小数
round rounding decimal precision 精度
average mean 平均
maximum max largest biggest highest greatest peak most 最大 最多
minimum min smallest lowest least fewest 最小 最少
sum total add addition 总和 合计
count tally occurrence frequency 计数 次数
matrix matrices grid image board 矩阵 网格
graph network node vertex edge
path route shortest nearest distance 路径 最短
queue broker topic event kafka rabbitmq sqs message 队列 消息
consumer subscriber handler
thread concurrent concurrency parallel async race lock mutex 线程 并发
database sql postgres mysql sqlite
join merge combine union 合并 连接
interval range span 区间 范围
timezone utc offset dst daylight 时区
date day calendar 日期 日历
meeting appointment slot calendar schedule call 会议 日程
schedule plan arrange book reserve cron nightly 安排 预订
test assertion assert unittest spec 测试 断言
exception error crash failure traceback throw raise 异常 报错 错误
timeout slow latency hang performance speed 超时
retry backoff redeliver again 重试
throttle quota 429 ratelimit 限流
api endpoint rest request http fetch url 接口 请求
browser chrome firefox page frontend 浏览
json parse serialize deserialize yaml xml 解析
file path folder directory 文件 目录
encode decode utf unicode charset encoding 编码 解码
regex regexp pattern 正则
password credential secret login 密码 登录
token jwt bearer claim session authenticate authentication 令牌
injection sanitize escape parameter bind concatenate 注入 转义
memory heap ram oom leak 内存
container docker dockerfile kubernetes pod k8s 容器
deploy deployment release rollout 部署 发布
commit branch rebase push git 提交 分支
build compile compilation 编译 构建
dependency package library module import 依赖
null none nil empty blank missing 缺失
boundary edge inclusive exclusive 边界
binary base radix hexadecimal octal 进制 二进
anagram permutation rearrange
reuse idempotent repeat
index scan 索引
component react render hook 组件
label accessible accessibility screenreader 标签
layout flex flexbox css 布局
frame fps animation sprite
clean wash rinse scrub sink sinkbasin
heat warm hot microwave stove cook boil
cool cold chill chilled fridge refrigerator freeze
lamp light desklamp illuminate
find locate search seek 寻找 查找
take pick grab carry hold fetch
cabinet cupboard drawer shelf closet container receptacle
two both pair couple
table desk countertop counter surface
mug cup glass
sofa couch armchair
bin trash garbage waste garbagecan
born birthplace birth native hometown 出生
director filmmaker film movie cinema 导演 电影
actor actress star cast role portray character 演员
author writer novelist novel 作者 作家
composer musician singer song album band opera 歌手 作曲
founder found establish form start 创立 创办
older oldest earlier earliest first younger later 更早
nationality country citizen citizenship nation 国籍 国家
profession occupation job career 职业
population inhabitant resident census 人口
common shared share alike 共同
town city village hometown 城市
university college school education attend 大学
award prize winner medal 奖项
short brief concise phrase 简短
article page wikipedia encyclopedia title entry
ambiguous namesake disambiguation
buy purchase shop checkout cart 购买
product item goods 商品
price cost cheap budget fee fare 价格 费用
size colour color option variant flavor flavour
flight plane airline airport fly 航班 机票 飞机
luggage baggage bag suitcase 行李
hotel stay accommodation lodging 酒店 住宿
trip travel journey itinerary vacation holiday tour 旅行 行程
passport visa abroad 护照 签证
museum sight attraction 景点 博物
email mail inbox 邮件
form field submit fill 表单 填写
click button link 点击
summary summarise summarize digest abstract recap overview condense 摘要 总结 概括
translate translation 翻译
headline title heading 标题
tone polite formal 语气
presentation slide deck powerpoint 幻灯
minutes protocol 纪要
contract agreement lease clause tenancy 合同 协议 条款
obligation duty responsibility 义务
landlord tenant rent flat apartment lease 租赁 房东
survey poll questionnaire 问卷 调查
quote quotation cite citation reference source 引用 来源
caption subtitle 字幕
spelling grammar typo proofread
instruction requirement specification docstring statement 要求
equation solve root 方程
percent percentage proportion ratio rate share 百分 比例
probability chance likelihood odds 概率
speed velocity fast pace quick 速度
unit metre meter foot feet kilometre mile convert conversion 单位 换算
interest compound loan mortgage 利息 贷款
tax vat duty 税率 税号
increase rise growth grow 增长 增加
decrease decline fall drop 下降 减少
plot chart diagram visualise visualize axis 图表
correlation correlate causation cause 相关 因果
outlier anomaly 异常
scale normalise normalize standardise standardize scaler 归一 标准
train fit model classifier regression 训练 模型
accuracy precision recall metric evaluate evaluation 准确
imbalanced rare fraud positive
validation holdout fold cross split 验证
forecast predict prediction 预测
spreadsheet excel column sheet 表格
map shapefile layer gis 地图
genome gene sequencing fastq bed gff
dose dosage medicine medication drug tablet pill 剂量 药物
recipe bake bread dough flour cake cookie stew 菜谱
plant sow seed garden tomato 种植
run runner marathon jog 跑步
paint varnish coat glossy shiny 油漆
pipe valve tap plumbing drip leak 水管
press button switch debounce
sensor microcontroller arduino raspberry 传感
ancestor forebear genealogy baptise parish 祖先
customer client buyer shopper 客户 顾客
support helpdesk complaint reply 客服
invoice bill receipt 发票 账单
refund reimbursement return 退款 退货
payment pay charge 付款 支付
question ask query 提问
verify check confirm validate inspect examine 检查 核对 验证
stop terminate abort halt 停止
dish plate bowl crockery
spoon fork knife spatula utensil cutlery
pillow cushion
tomato lettuce potato apple bread egg food
shop store supermarket
magazine newspaper journal periodical publication
company firm corporation enterprise business 公司 企业
king queen monarch ruler emperor
war battle conflict
species breed genus animal
politician president minister senator governor
army military soldier
height tall altitude elevation
stack push pop 堆栈
tree leaf root subtree 二叉
heap priority
letter character char alphabet
uppercase lowercase capital capitalise capitalize
whitespace space trim strip
split tokenise tokenize separate delimiter comma 分割
leap february calendar 闰年
temperature celsius fahrenheit degree 温度
stair climb step ladder
coin denomination change
stock trade profit
island connected component flood
window sliding consecutive contiguous 窗口
sorted bisect binary 二分
pointer reference link
copy clone deepcopy alias 复制 拷贝
argument parameter option 参数
overflow bound range 溢出
transaction commit rollback atomic 事务
migration schema alter column
log logging trace 日志
permission privilege role access 权限
header footer
stream chunk buffer read
subset superset combination
rectangle square triangle circle shape geometry
mass weight heavy
clock hour minute 小时 分钟
deadline due overdue
parcel shipment delivery ship 快递 发货
discount coupon sale promotion 折扣 优惠
interview candidate recruit hire applicant
student pupil learner
doctor physician patient clinic 医生 病人
illness disease symptom diagnosis 疾病 症状
apology apologise apologize sorry 道歉
"""


def _kin() -> dict[str, frozenset[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for group in GROUPS.split("\n"):
        words = {stem(word) for word in group.split()}
        for word in words:
            found[word] |= words - {word}
    return {word: frozenset(others) for word, others in found.items()}


KIN = _kin()
