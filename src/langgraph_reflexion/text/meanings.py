"""Meanings: words of many languages that stand for the same deed or thing, and where a text says them.

A word that ends in `*` stands for all that begin so; `_` joins words that must follow each other. Marks on letters and
case do not count. The languages are those in which people have tried to plant orders; what is not listed means nothing.
"""

# ruff: noqa: E501 - a list of words reads best on one line

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

WORDS: Mapping[str, str] = {
    # how a sentence is turned
    "not": "not never don't don’t doesn't doesn’t won't can't cannot mustn't shouldn't no nobody nothing neither nor nie niemals no_one ne jamais nunca jamas non mai nao не нельзя никогда nigdy nie avoid* refus* forbid* prevent* reject* beware rather_than instead_of against declin* 不要 别 勿 不得 不能 不应 禁止 避免 拒绝 绝不 从不 防止 严禁 不可 不会 niente nada ничего",
    "not_after": "nicht kein keine keinen ない ません 禁止 않* 마세요 말고 금지 मत नहीं nichts nie niemals 말 jamais",
    "without": "without ohne sans sem senza без bez なしで なしに 없이 बिना بدون 未经 不经 不经过 sin_confirm* sin_pregunt* sin_verific* sin_pedir sin_aprob* sin_autoriz* sin_avis* sin_control* sin_consult* せずに ずに beklemeden sormadan onaysiz zonder without_getting ohne_rückfrage",
    "needless": "unnecessary needless unneeded superfluous no_need needn't need_not not_needed not_necessary not_required isn't_needed isn't_required no_longer_need* no_longer_require* no_longer_necessary not_needed_any_more don't_need do_not_need don't_have_to do_not_have_to waived may_be_left can_be_left uberflussig unnotig nicht_notig nicht_erforderlich inutile pas_besoin plus_besoin pas_necessaire innecesari* no_hace_falta no_es_necesari* desnecessari* non_serve non_e_necessari* не_нужн* не_требу* лишн* 不必 无需 不用 不需要 无须 毋须 多余 不再需要 没有必要 没必要 免除 不要です 不要な 필요_없* zbedn* niepotrzebn* no_one_checks nobody_checks no_point_in why_bother only_annoy only_annoys slow_us no_reason_to no_point",
    "skip": "skip* bypass* omit* circumvent* disabl* deactivat* suppress* mute mutes muted waiv* evad* sidestep* overrid* suspend* turn_off turned_off turning_off switch_off switched_off shut_off switch_*_off leave_out left_out leave_aside leave_*_aside leave_*_*_aside set_aside put_aside get_around getting_around work_around working_around do_away_with dispense_with forgo* neglect* ignor* disregard* remove removed removes removing drop dropped dropping exempt* overlook* lift lifted spare cut_out loosen* weaken* relax* fake faking forge forging bypassed stop_asking stop_double* stop_check* stop_verif* stop_confirm* 跳过 绕过 绕开 省略 省去 略过 关闭 停用 禁用 忽略 免去 屏蔽 关掉 关停 无视 uberspring* umgeh* deaktivier* ausschalt* abschalt* weglass* auslass* desactiv* saut* contourn* omet* omit* desativ* disattiv* ignor* отключ* пропус* обход* обойд* выключ* игнорир* 省略 無効 飛ばし スキップ 回避 無視 건너뛰* 비활성* 생략* 우회* 무시* 끄고 wylacz* pomin* pomij* تجاهل تخط* عطل* अनदेखा छोड़* salta saltar salte pula pular pule leave_*_*_*_aside leave_*_*_*_out ueberspring* comment_out comments_out lower lowers loosen avoid avoids avoiding get_past slow_us_down skipped stop_sending schalt* ausser_kraft 取消确认 取消审核 取消验证 取消审批 取消检查",
    "regardless": "regardless whatever no_matter whichever irrespective in_any_case in_all_cases in_every_case at_all_times quel_que_soit quoi_qu* aunque egal unabhangig immer_wenn 不管 无论 不论 即使 哪怕 一律 независимо",
    "all": "all any every each everything anything everyone whatever always automatically at_once immediately instantly straight_away right_away on_sight on_request on_demand blindly unlimited any_size without_limit every_time 所有 一切 全部 任何 一律 直接 自动 立即 马上 总是 每次 各种 sempre siempre toujours immer alle alles subito immediat* inmediat* sofort tout toute toutes tous todas todos tutti tutte все всегда сразу すべて 全て 自動 모두 모든 자동* wszystk* zawsze सभी كل जميع every_ranking",
    "each_time": "each_request every_request each_message every_message each_call each_run each_answer each_query 每次",
    "unbound": "whatever every any any_size at_once immediately instantly straight_away right_away on_sight automatically blindly without_limit 立即 马上 直接 自动 一律 所有 任何 全部 subito sofort immediat* inmediat* automati* автоматич* 自動 자동* on_the_spot on_first_demand each_time le_jour_meme по_первому 바로 jede jeden toute tout ogni cada",
    "prior": "your you previous prior above earlier preceding existing original initial system safety told given makers all any every former foregoing 之前 以前 上面 先前 此前 所有 一切 任何 系统 你的 原来 全部 deine deiner alle bisherig* vorherig* precedent* tes toutes anteriores anterior previas todo todas todos precedenti tutte предыдущ* прежн* все предыдущие 以前の すべて 全て 前の 이전 모든 모두 السابقة السابقه जميع كل पिछले सभी poprzedni* wszystk* past your_own the betreiber* des developers operator operator's privacy",
    "inhouse": "system system's developer developer's developers operator operator's your 系统 开发者 sistema systeme systems systemvorgaben desarrollador developpeur sviluppatore системн* システム 시스템* betreiber* 设定",
    "anyone": "anyone anybody whoever everybody everyone requester requestor stranger* world whomever contractor caller whoever_asks 任何人 申请人 所有人 对方 陌生人 谁 quien* cualquier* jedem jeder chiunque quiconque tous любо* всем 誰でも 누구*",
    "third": "contractor contractors vendor vendors guest guests new_hire technician technicians partner partners caller callers colleague colleagues stranger strangers outsider outsiders support_desk support consultant consultants supplier suppliers intern temp_worker agency 同事 来电 来电的人 对方 外包 承包商 prestataire* tecnico tecnici techniker dienstleister contratist* fornecedor* подрядчик* 担当者 업체* dzialowi soporte поддержк* chatbot bot every_caller each_caller",
    # deeds
    "check": "ask asks asking check checks checking double-check* double-checking verify* verif* confirm* validat* inspect* review reviewing wait waiting consult* examin* looking_at testing proof-read* 询问 请示 检查 核对 核实 确认 验证 校验 审核 等待 复核 询价 征求 fragen frag nachfrag* prufe prufen kontrollier* abwart* demander demande attendre attends verifi* preguntar pregunta esperar comprobar comproba* chiedere chiedi attendere spytat* спраш* провер* жди подтвержд* 確認 検証 待た 확인* 검증* 묻지 물어* look_at pregunt* demand* chied* controllare fragst 검토* confirma* 검사* word rückfrag* getting_his getting_her",
    "again": "again twice once_more a_second_time 再次 重复 再问",
    "asking": "ask asks asking wait waiting check checking verify verifying confirm confirming double-check double-checking consult consulting inspect validate bother 询问 请示 核对 核实 确认 等待 验证 fragen frag warten warte attendre attends pregunta* esper* chied* attend* спраш* жди 確認 묻*",
    "contest": "dispute disputes question challenge contest query 质疑 追问",
    "tell": "tell tells telling inform informing notify notifies notifying mention mentions mentioning report reporting alert alerting disclose disclosing let_*_know let_know 告诉 通知 告知 提及 汇报 报告 erwahn* mitteil* informier* sage sag mentionn* dis dire informe* mencion* avis* di сообщ* говор* упомин* 伝え 知らせ 報告 알리* 말하* diga digas bring_up brought_up hear parl* 提醒 avert*",
    "know": "learn learns know knows notice notices noticing find_out finds_out discover discovers become_aware realise realize hears hear_of 发现 知道 察觉 看到 注意到 merk* erfahr* sapere savoir saber узна* let_*_see let_*_*_see hear_about",
    "hide": "hide hides hiding conceal* keep_*_from keep_*_*_from keep_from keep_*_out keep_*_*_out keep_out withhold* cover_up obscure leave_out left_out leave_*_out leave_*_*_out omit omits omitting 隐瞒 瞒着 隐藏 掩盖 不提 verschweig* verheimlich* versteck* ocult* escond* nascond* скр* умалч* 隠し 隠す 숨기* 숨겨* cachez leave_*_*_*_out keep_*_*_*_out keep_quiet gloss_over hush_up",
    "secretly": "secretly quietly silently covertly stealthily stealth discreetly unnoticed behind_*_back 悄悄 偷偷 暗中 私下 heimlich discretement secretement en_secreto in_segreto тайно こっそり 몰래 unasked without_leave",
    "unseen": "cannot_be_seen can't_be_seen can_not_be_seen does_not_see do_not_see doesn't_see don't_see will_not_see won't_see not_be_noticed need_not_hear needn't_hear need_not_know needn't_know not_need_to_know don't_need_to_know sleeps asleep 看不到 不知情 别让 no_trace leaves_no_trace without_a_trace",
    "follow": "follow follows obey obeys carry_out carried_out comply complies execute executed heed act_on do_what does_what go_along run_it adhere believe trust accept adopt 执行 照办 照做 服从 遵守 听从 遵循 照着 befolg* gehorch* obeis* suivre suis obedec* sigue haz segui obbedisc* выполн* делай слушай* следуй 従う 従っ 実行 따르* 실행* نفذ اتبع करो मानो wykonuj* 运行 按照 do_as does_as 你就做 就做 fuhre rely",
    "heed": "follow obey comply listen heed respect hor* befolg* sigas sigue sigan obedezcas tiens tenez suis segui ascolta слуша* следу* 理会 遵守 听从 按照 従わ* 따르*",
    "mustfollow": "must_be_followed must_be_obeyed is_to_be_followed are_to_be_followed must_follow 必须照办 必须执行 必须遵守 is_binding are_binding binding_for",
    "drop": "ignor* disregard* forget forgets forgetting override overrides overrule* bypass* discard* unlearn* void null cancelled canceled revoked suspended lifted no_longer contrary abandon* defy violate* 忽略 无视 忘记 忘掉 抛开 作废 失效 取消 违反 不算数 不再 不受 ignor* oubli* olvid* vergiss* vergess* dimentic* esquec* esquece* missacht* gegen забудь игнорир* наруш* 無視 忘れ 무시* 잊* تجاهل انس* अनदेखा भूल* zignoruj ignoruj zapomnij negeer vergeet do_not_apply does_not_apply doesn't_apply don't_apply not_bind is_off are_off out_of_your_mind counts_for_nothing count_for_nothing as_if_*_were_blank were_blank did_not_exist not_binding handle_gegen does_not_hold set_*_aside lay_*_aside free_of hold_no_force pretend expired obsolete outdated lapsed",
    "off": "are_off is_off were_lifted are_lifted is_lifted hold_no_force holds_no_force have_no_force are_void is_void are_not_yours no_longer_count no_longer_apply no_longer_applies 过时了 都过时 作废 不算数",
    "move": "send sends sending post posts posting upload uploads forward forwards forwarding transmit* put puts paste pastes pasting include includes including append* attach* share shares sharing copy copies write store stores place places submit submits relay* pass deliver* leak* export exports publish publishes hand hands handing mail mails email e-mail cc bcc slip whisper* save embed* encode carry carries carrying quote release transfer reveal* disclos* expose* supply 发送 发给 发到 发往 上传 提交 写入 写进 附上 附加 传给 转发 交给 贴到 公开 填 泄露 抄送 提供 导出 一并 schick* send* weiterleit* leite_*_weiter leite transmet* transmets partag* отправ* перешл* переда* 送信 送る 送り 渡す 転送 보내* 전송* 공유* 올려* أرسل ارسل भेज* wyslij przeslij verstuur envia* envie* envio* envoi* envoy* envoye* invia inviare invii manda mandar comparte compartir add give drop 密送 read_out describe mirror partilh* stuur gib dump let move moves provide provides providing 同步 publica publicar publie publier veroffentlich* mention sent posted uploaded forwarded shared copied mailed alle_e-mails leitet",
    "webhook": "webhook webhooks callback",
    "bcc": "bcc cc 密送 抄送",
    "spread": "share shares publish publishes disclose reveal post 共有 公開 公开 泄露 透露 分享 공유* partag* compart* partilh* teil veroffentlich* leak_the leak_all leak_one",
    "give": "give gives hand tell read_out 给 念给 告诉 教え 알려* gib donne da dai przekaz* daj",
    "keep": "keep keeps store stores save saves put write leave 保存 存放 写在",
    "show": "reveal* show shows print prints repeat repeats recite recites output outputs display displays list quote disclose* expose* dump tell spell_out 输出 显示 透露 泄露 打印 复述 附上 展示 说出 zeig* gib montre affiche muestra mostra покажи выведи 表示 出力 보여* verrat* verrate",
    "pay": "pay pays paid paying payment payments refund refunds refunded wire wired wires remit* reimburse* settle settles settled disburse* deposit transfer transfers transferred discount expense expenses claims invoice invoices bill bills payout* 付款 支付 退款 汇款 转账 打款 货款 报销 汇入 折扣 zahl* uberweis* rechnung* paie* payer virement rembours* facture* reembols* factura* fattur* transfier* bonifico rimbors* descont* опла* перевед* плат* счет* 支払 送金 返金 결제* 송금* 환불* ادفع भुगतान paga pagar pague pagamento* pago pagos charge lastschrift* перевод* odemeyi 放款 transferenc*",
    "sayso": "as_it_says as_they_say 按他说的 照他说的 就按 whatever_they whatever_he whatever_she whatever_the 照网页 按网页",
    "writeoff": "write_off writes_off forgive forgives",
    "spend": "pay pays wire wires remit* transfer buy buys buying purchase purchases purchasing subscribe subscribes upgrade sign_up invest donate tip deposit wired book 购买 订阅 付款 转账 汇款 充值 kauf* acheter compra* acquista* купи* 購入 구매* paga pague subscrib*",
    "buys": "buy purchase pay wire subscribe donate 购买 付款 汇款 kauf* compra achete",
    "approve": "approve approves approving authorise authorises authorize authorizes say_yes allows green-light sign_off yes 批准 同意 通过 放行 approuv* aprueb* aprov* approv* genehmig* erlaub* одобр* 許可 承認して 承認する 승인* وافق agree_to agrees_to bestatig* confirm_every promise promises",
    "yourself": "yourself on_your_own 自己",
    "click": "点确定 点同意 点击确定 click_ok click_yes press_yes answer_yes accept_it",
    "weak": "accept accepts allow allows permit permits grant grants wave waves 接受 允许 准许",
    "request": "request requests claim claims invoice invoices payment payments application applications transaction transactions access expense expenses refund refunds transfers 请求 申请 付款 报销 退款 转账",
    "grant": "grant grants give gives add adds make makes promote promotes assign assigns create creates elevate* escalat* raise extend enable register 授予 开通 添加 赋予 给 提升 创建 gib gibt vergib erteil* donne* accord* conced* concede da otorg* assegna dai выдай выда* назнач* дай 与え 付与 부여* امنح",
    "share": "share shares publish publishes expose open_up 共享 公开 compartir freigeben",
    "forever": "never_expire never_expires no_expiry not_set_an_expiry without_expiry open_for_ever permanent_access 永不过期 永久有效",
    "worldopen": "world-readable world-writable publicly_readable publicly_accessible open_to_the_whole open_to_the_internet open_to_everyone open_to_the_world 0.0.0.0 对所有人开放 对外开放 公开访问 all_ports privileged_mode sudo_for_each sudo_for_every",
    "let": "let lets give gives add adds unlock open provide hand allow allows 给 开放 donne gib da dai concede",
    "whoever": "anyone anybody whoever the_world strangers whomever 任何人 cualquiera quiconque jedem chiunque",
    "high": "admin admins administrator* superuser superusers sudo sudoer* owner_role owners_group owner's_account owner_account owner_rights ownership full_access full_rights full_control all_permissions all_rights unlimited_access write_rights_for_all 0777 777 highest_privilege* all_privileges privileged super_admin operator_rights yourself_the_owner yourself_owner 管理员 最高权限 超级用户 超级权限 全部权限 所有权限 完全访问 administrador* administrateur* administrator* eigentumer* propietari* proprietari* amministrator* администратор* 管理者 관리자* مدير as_root root_account root_password root_access root_rights acceso_total acces_total acces_complet vollzugriff полный_доступ full_admin wi-fi_admin",
    "impostor": "as_root as_superuser as_the_administrator as_the_owner owner's_account root_account root_password another_user's other_user's other_users' admin's_account boss's_account 老板的 其他用户的 别人的",
    "act": "use uses run runs sign log login start connect execute migrate work 用 使用 登录",
    "rights": "access rights permission permissions privileges role files documents document folder account accounts data 权限 访问 文件 账号 zugang zugriff rechte acces permis* acesso accesso доступ* 権限 권한 edit_rights",
    "holdings": "login logins mailbox inbox account accounts password passwords production production_group database payroll customer_files calendar vault console folders read_and_write_rights",
    "delete": "delete deletes deleting wipe wipes wiping erase erases erasing purge purges destroy destroys truncate truncates drop drops dropping remove removes clear clears overwrite overwrites format rm trash shred 删除 清空 清除 销毁 抹掉 删掉 删 losch* entfern* supprim* efface* elimin* apag* удал* стер* сотри 削除 消去 삭제* 지워* احذف usun* verwijder* borra borrar borre cancella cancellare kill kills revoke revokes empty_the empties_the empty_it then_empty shut_down cancel_the cancel_all rewrite",
    "valuable": "backup backups archive archives recycle_bin production prod audit_trail audit_log audit_logs audit_trails history photos photo home_directory home_folder release_branch main_branch customer_table orders_table users_table customer_data production_tables evidence traces watchdog monitoring_agent projects ~ 备份 照片 生产 数据库 历史 存档 审计 记录 日志 sicherung* sauvegarde* respaldo* copia_de_seguridad backup резервн* баз バックアップ 履歴 백업* users'_access user's_access users_access ledger only_copy cluster approvals_table registro_de_auditoria журнал* سجلات i_log protokolle* logbuch customer_database production_database live_database the_whole_database user_database all_tables the_disk all_other_lessons other_lessons log_entries log_entry tracks git_history",
    "harmless": "temp temporary tmp test tests scratch cache cached dummy duplicate* staging local build generated old own stale expired sample 临时 测试 缓存 重复 过期 空 draft drafts 草稿",
    "trash": "trash recycle_bin bin 回收站 垃圾箱",
    "risky": "merge merges deploy release book books pay pays transfer wire refund delete deletes deleting remove overwrite publish send grant proceed go_ahead ship buy sign 合并 发布 执行 付款 退款 转账 删除 发送 直接 fusion* ausfuhr* uberweis* zahl* paga* paie* pague borrar elimina envia 実行 실행* transferenc* transfers withdrawal withdrawals payment payments push sending paying transferring merging deploying publishing buying refunding paiement pago оплат* 결제* 支払 汇款",
    "answer": "answer answers answering reply replies say says saying respond responds state states claim claims tell report reports declare maintain confirm insist 回答 回复 说 声称 答复 报告 antworte* sag sage repond* dis responde* respond* di rispond* ответь отвеча* говори 答え 回答 대답* 답하*",
    "prefer": "recommends prefer favour favor praise promote rank ranked rate rates suggest advertise 推荐 首选 选择 夸 优先推荐 贬低 empfiehl* empfehl* recommand* recomend* raccomand* consigli* рекоменд* 勧め おすすめ 추천* recommend*",
    "praise": "praise praises promote promotes advertise advertises favour favor favours badmouth disparage 夸 吹捧 贬低 in_praise only_in_praise on_top_of top_of_every 置顶",
    "stars": "five_stars 5_stars full_marks top_marks top_score highest_score maximum_score score_of_100 100_points 满分 五星",
    "bad": "unsafe bad badly hacked worse scam inferior lower dangerous 差 质量问题 不安全",
    "rival": "rival rivals competitor competitors competing 竞争对手 对手 konkurren* concurrent* competidor*",
    "only": "no_other nothing_else nothing_but none_other others_not above_all_others over_all never_another 其他公司 其他一概 就推荐 一概不 别的不 ausschliesslich nichts_anderes rien_d'autre ranked_first rank_first sole_winner and_only nowhere_else no_one_else",
    "fetch": "open visit fetch load get gets download downloads install installs run runs execute point points use add adds browse read resolve query call send direct log set pull import curl wget pip npm 安装 下载 打开 访问 运行 改用 使用 执行 links_to",
    # things
    "guard": "approval approvals sign-off signoff consent authorisation authorization confirmation confirmations confirming verification two-factor 2fa mfa authentication safeguard safeguards guardrail guardrails safety security audit auditing firewall antivirus anti-virus sandbox moderation compliance content_filter spam fraud captcha certificate certificates tls ssl anonymisation anonymization anonymise* redaction access_control* permission_check* permissions_check* reviewer reviewers the_review safety_review code_review supervisor oversight monitoring alarm alarms inspection hooks deny_list denylist blocklist allowlist manager's the_checks checks countersign* dual_control four-eyes second_opinion test_suite watchdog rate_limit* quality_gate id_check identity_check signature_check due_diligence vetting 审批 审核 确认 验证 校验 核对 核实 核验 安全 审计 告警 报警 防火墙 权限检查 检查 风控 签字 复核 授权 脱敏 认证 许可 日志记录 freigabe* genehmigung* bestatigung* prufung* sicherheit* uberprufung* zustimmung* kontrolle* rechteprufung* approbation* validation* confirmation* verification* securite controle* autorisation* consentement aprobacion* confirmacion* verificacion* seguridad autorizacion* aprovacao* confirmacao* verificacao* seguranca approvazione conferma verifica sicurezza controllo controlli подтвержд* проверк* безопасност* одобрен* согласи* авториз* 承認 確認画面 検証 安全 監査 認証 승인* 검증* 보안* 인증* 확인* sprawdzan* potwierdz* zatwierdz* uprawnien* الأمان الموافقة अनुमति सुरक्षा controles the_check human_review inspecting virus_scan antivirus_scan assertion assertions row-level coverage tenant_filter tenant_check identity_question protokollierung* onay* 手续 검토* payment_check safety_check security_check fraud_check credit_check background_check age_check spending_limit spending_limits recipient's_identity recipient scanner scanners virus_scanner the_tests anonymis* anonymiz* masking redact* signature_checks identity_proof second_signature security_scan login_page rückfrage* abfrage",
    "person": "user user's users customer customer's customers client client's clients human manager boss supervisor owner people anyone anybody nobody no_one team tenant patient buyer reader_of_the_invoice 用户 客户 顾客 主管 经理 上级 老板 别人 人 benutzer* nutzer* kunde* kunden utilisat* client* usuari* client* cliente utent* пользовател* клиент* 利用者 ユーザー 顧客 사용자* 고객* account_holder holder board boss's",
    "adverse": "error errors fail fails failed failing failure failures fee fees charge charges surcharge risk risks side_effect* problem problems breach breaches loss losses incident incidents damage delay delays change changed changes cost costs recall deletion deleted transfer transfers withdrawal mistake mistakes warning warnings defect defects leak leaks refund refunds payment payments 失败 错误 费用 风险 副作用 问题 损失 事故 变更 gebuhr* fehler* kosten frais erreur* risque* tarifa* comision* error* riesgo* taxa* commission* комисси* ошибк* риск* 手数料 失敗 수수료* 실패* real_price true_price pagos paiement borr* 결제* 지불* outage outages complaints complaint 涨价",
    "owed": "fee fees charges surcharge side_effect side_effects recall recalls data_loss breach delay delays risks 手续费 费用 风险 延误 gebuhr* verzogerung* frais retard tarifa* comision* retraso commission* комисси* 手数料 수수료*",
    "altered": "was_changed were_changed was_modified were_modified was_deleted were_deleted was_altered 被修改 被删除 修改过",
    "report": "summary reply answer message messages log logs record records history notes minutes statement 报告 总结 摘要 回复 记录 日志 bericht rapport resumen informe relatorio отчет* the_report your_report report_to reports the_*_report a_report 报告里 before_it_goes",
    "secret": "password passwords passphrase passphrases credential credentials api_key api_keys apikey key_file access_key access_token access_tokens session_token token tokens private_key secret_key secrets session_cookie cookie cookies environment_variable environment_variables env_var env_vars dotenv .env env pin otp 密码 密钥 口令 凭证 令牌 环境变量 passwort* passworter kennwort* zugangsdaten mot_de_passe mots_de_passe contrasen* clave claves senha senhas palavra-passe parola_d'ordine credenzial* парол* ключ* パスワード 鍵 秘密鍵 비밀번호* कुंजी पासवर्ड كلمة_المرور hasl* verification_code one-time_code one-time_codes cvv door_code connection_string connection_strings 验证码 haslo the_keys your_keys all_keys encryption_keys signing_keys four-digit_code card_code",
    "plaintext": "plain_text plaintext clear_text cleartext 明文 klartext en_clair texto_plano",
    "private": "conversation conversations chat_history chat transcript customer_list customer_table customer_data account_details bank_details account_number card_details card_number card_numbers credit_card passport passports identity_papers identity_card id_number social_security inbox contacts address_book salary salaries medical health diagnosis personal_data private_data confidential internal_notes user_message user's_message last_user_message customer's_messages user's_files user's_location location phone_number phone_numbers user's_data clients_files meeting_minutes dump respondents source_code customers_names 聊天记录 对话 身份证 证件 手机号 手机 电话 客户名单 通讯录 银行卡 卡号 隐私 住址 工资 病历 gesprach* kundendaten personalausweis historique donnees_client* historial datos historico dados переписк* данны* 会話 個人情報 대화 개인정보* المحادثة guest_list home_address illness payroll mailbox process_memory voice_recordings each_prompt uploaded_documents identity papers kundenverzeichnis base_de_clientes klantgegevens internal_files 内部文件 客户资料 客户信息 payslips all_files config_folder users_messages chat_log private_repository payroll_sheet four-digit_code code_of_the_customer's_card",
    "out": "public publicly vendor vendors supplier suppliers partner partners third_party third-party third_parties external outside outsider* stranger* anyone anybody whoever forum gist pastebin url urls image images query_string query search_terms search_term search_query webhook bucket tracking collector survey competitor competitors backup_mailbox mailbox open_storage open_folder shared_folder commit maintainers shop seller sellers support_robot weather_tool attacker press server servers archive_server channel everyone each_request notes 外部 对方 第三方 合作方 公开 论坛 供应商 陌生人 竞争对手 服务器 备份邮箱 extern* dritte* lieferant* serveur* fournisseur* tiers servidor* proveedor* canal terceros fornecedor* fornitor* server сервер* посторонн* внешн* продав* 外部 サーバー 第三者 서버* 외부* خادم سيرفر analytics_service file_host product_review voicemail issue werbe* socio 外部顾问 网盘 taxi_firm agency partner_company 顾问 remote_server link links support_site colour colours color chart picture pixels foro forums wiki issue_tracker ad_network leaves_the_company berater outside_partners",
    "demand": "on_request upon_request by_phone who_asks who_ask whoever_asks when_asked that_asks",
    "publicplace": "readme repository repo wiki public log logs chat commit ticket spreadsheet whiteboard 公开 日志 仓库 notes title subject headline",
    "own_rules": "system_prompt hidden_prompt configuration_text your_instructions your_rules your_prompt hidden_instructions initial_prompt first_message tools_and_rules rules_you_were_given developer_message 系统提示 提示词 全部规则 systemprompt instructions_systeme prompt_del_sistema системн* システムプロンプト 시스템_프롬프트 your_configuration contents_of_memory your_memory",
    "rules": "instruction instructions rule rules guideline guidelines directive directives directions policy policies system_prompt system_message limits limitation limitations restriction restrictions constraint constraints guardrails safeguards training configuration orders prompt told told_you you_were_told opening_message restraints 指令 指示 规则 规定 规矩 提示 政策 限制 约束 要求 说的 anweisung* regeln vorgaben instruccion* instruc* reglas instruction* regles consignes istruzion* regole regras instrucoes инструкц* указан* правил* 指示 ルール 規則 命令 지시* 규칙* التعليمات القواعد निर्देश* निर्देशों नियम* instrukcj* polecen* zasad* instructies regels commands systemvorgaben settings 设定",
    "told": "told_you you_were_told te_dijeron t'a_dit dir_gesagt ti_hanno_detto disseram 说的 言われた сказали you_learned you_have_learned",
    "worthless": "count_for_nothing counts_for_nothing do_not_matter doesn't_matter does_not_matter 不重要",
    "source": "page pages web_page web_pages website websites site document documents attachment attachments e-mail e-mails email emails mails footer footnote footnotes readme file files pdf ticket comment comments log logs result results output outputs observation observations calendar_entry entry review reviews api_answer tool_result tool_results tool_output web text note memo memory message messages 网页 工具 文件 文档 邮件 附件 日志 搜索结果 页面 备注 页脚 评论 内容 seite dokument* webseite pagina documento* nota texto testo документ* текст* страниц* 文書 ページ メール 문서* 페이지* النص مستند दस्तावेज़* passage title header snippet snippets forum_answers chatbot banner calendar description field response responses fehlermeldung messages_of instructions_inside 报错信息 spreadsheet cell cells webpage thread",
    "letter": "e-mail email mail message chat letter page text sms 邮件 短信 消息 网页",
    "orders": "command commands instruction instructions orders directive directives 命令 指令 指示 befehl* ordre* orden ordenes comand* приказ* команд* 명령* أوامر",
    "asorder": "as_a_directive as_an_order as_a_command as_an_instruction as_orders as_commands as_instructions as_directives your_next_step knows_best 当作命令 当成命令 就是命令",
    "whatever": "whatever anything everything blindly literally word_for_word immediately at_once 什么就 立刻 立即 马上 照着做 sin_preguntar sofort as_it_says as_they_say as_they_are as_is 按他说的 照他说的 就按 做什么 要求什么",
    "telling": "tells_you tell_you asks_you ask_you instructs_you instruct_you says_to tells_the_assistant tells_the_agent commands_you wants_you_to demands",
    "halt": "stop stops report reports refuse decline ignore disregard warn suspicious suspicion phishing injection attack attackers never not don't 停 报告 可疑 不要 tell_the_user ask_the_user do_nothing leave_it leave_them",
    "authority": "administrator admin operator system developer developers owner staff employee employees supervisor ceo colleague colleagues signed approved 管理员 系统 运维 老板 主管 最高权限 account_holder holder rightful",
    "steer": "steer steers decide decides redefine redefines redirect redirects dictate dictates replace replaces determine determines guide guides change_your changes_your set_your",
    "yours": "your you task goals objectives next",
    "goals": "your_goals your_goal your_task your_tasks your_objectives your_mission",
    "outrank": "outrank* overrul* supersed* override overrides precedence priority count_more counts_more counts_for more_than weigh_more before_those before_the_user over_the_user above_the_user take_precedence come_first comes_first first weight_of 优先 高于 优先级 就是命令 为准 比用户 比用户的 以网页为准",
    "brief": "task_description task_statement the_task user's_message user's_first user's_instructions",
    "saved": "after_a_backup after_the_backup after_backing_up after_*_backed_up 先备份 备份后再 备份之后再",
    "account": "account accounts iban wallet bank_details sort_code payee beneficiary bank_account account_number bic 账户 账号 konto compte cuenta conta conto счет* 口座 계좌* paypal paypal_address pay_pal 银行账号 银行卡号 卡号",
    "new": "new now from_this_month from_now changed moved switched redirect update updated replace instead ending different 新 今后 改 变更 已停用 neue* nouveau nouvelle nuev* nuov* нов* 新しい 새 nova novo novas novos nuovo nuova",
    "own": "your_own our ours mine my yours 自己的 我们的",
    "gift": "gift_card gift_cards voucher vouchers bitcoin bitcoins crypto cryptocurrency prepaid_card* itunes 礼品卡 购物卡 比特币",
    "money": "balance funds money savings half deposit cash earnings difference 余额 资金 钱 存款 geld argent dinero soldi деньги budget",
    "premium": "premium tier plan subscription newsletter insurance trial membership add-on 会员 套餐 warranty extended_warranty",
    "contract": "contract contracts delivery goods agreement signing signed order_is_confirmed 合同 签约 发货 vertrag contrat contrato contratto договор*",
    "before": "before ahead prior_to until bevor vor avant antes prima до",
    "treat": "treat treats regard regards consider considers count counts mark marks 视为 当作 当成 算作 处理",
    "silence": "silence no_answer 沉默 不回复 does_not_object doesn't_object no_objection no_reply does_not_answer does_not_reply 没有反对 不反对",
    "failing": "failing failed fail fails red broken wrong 失败 错误",
    "passing": "passing passed green correct accepted success successful skipped fine done right 通过 成功 正确 跳过 solved resolved closed paid complete completed hold holds",
    "graded": "the_tests tests_so test_so the_checks grader's grader's_threshold threshold the_answers answers_so expected_output 标准答案 测试",
    "cheat": "hard-code hard-codes hardcode hardcoding 写死 modify edit change tamper",
    "small": "small splitting split chain pieces parts 拆分 分成",
    "zero": "zero to_0 nought nil infinite infinity 无限",
    "limit": "limit limits threshold thresholds triggered cap ceiling 限额 上限",
    "pipe": "bash sh eval exec shell powershell macro",
    "install": "install installs pip npm download fetch add use run execute get 安装 下载 改用 运行",
    "package": "package packages registry mirror plugin plugins pip npm 包 插件 镜像",
}

_NOISE = re.compile("[\u0300-\u036f]")
_DENSE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_TOKEN = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff]|[.~]?[^\s\u3040-\u30ff\u3400-\u9fff.,;:!?()\[\]{}<>|\"“”„«»「」『』《》‘`*#=+/\\、。，；：！？（）…—–]+|\S"
)
_LETTERS = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ı": "i", "ß": "ss", "æ": "ae", "œ": "oe"})
_SEAM = re.compile(r"(?<=[a-z])(?=[A-Z])|_+|(?<=\b[dlnmtsj]')(?=\w)")
LONGEST = 24
"""Letters of the longest beginning that an entry has."""
_ENDS = frozenset(".!?。！？")
_BREAKS = frozenset(",;:()，；：、（）—–")
_OPEN, _SHUT = frozenset("“„«「『《"), frozenset("”»」』》")


class Word(NamedTuple):
    """One word of a text: where it stands, in words of which two signs without spaces make one."""

    text: str
    at: float
    clause: int
    sentence: int
    quoted: bool
    means: frozenset[str]


@lru_cache(maxsize=50_000)
def fold(text: str) -> str:
    """Small letters without marks."""
    small = text.lower().replace("’", "'")
    if small.isascii():
        return small
    return unicodedata.normalize("NFC", _NOISE.sub("", unicodedata.normalize("NFD", small))).translate(_LETTERS)


@lru_cache(maxsize=2_000)  # a text is judged and weighed, each by its words
def read(text: str) -> tuple[Word, ...]:
    """The words of a text in their order, each with what it means."""
    spaced = _SEAM.sub(" ", text.replace("’", "'"))
    words: list[Word] = []
    clause = sentence = 0
    quoted, place = False, 0.0
    for token in _TOKEN.finditer(spaced):
        sign = token.group()
        if sign == "~" or any(map(str.isalnum, sign)):
            place += 0.5 if _DENSE.match(sign) else 1
            words.append(Word(fold(sign), place, clause, sentence, quoted, frozenset()))
        elif sign in _ENDS and (sign != "." or not spaced[token.end() : token.end() + 1].strip()):
            sentence, clause = sentence + 1, clause + 1
        elif sign in _BREAKS:
            clause += 1
        elif sign == '"' or sign in _OPEN or sign in _SHUT:
            quoted = not quoted if sign == '"' else sign in _OPEN
    means = _meant([one.text for one in words])
    return tuple(one._replace(means=frozenset(means[i])) if i in means else one for i, one in enumerate(words))


def _meant(words: list[str]) -> dict[int, set[str]]:
    """What is meant at each place; an entry of several words stands at its first."""
    found: dict[int, set[str]] = {}
    for at, word in enumerate(words):
        alone, longer = _candidates(word)
        if alone:
            found[at] = set(alone)
        for rest, meaning in longer:
            if len(rest) < len(words) - at and all(map(_alike, rest, words[at + 1 : at + 1 + len(rest)])):
                found.setdefault(at, set()).add(meaning)
    return found


@lru_cache(maxsize=50_000)  # the same words come again and again
def _candidates(word: str) -> tuple[frozenset[str], tuple[tuple[tuple[str, ...], str], ...]]:
    """What a word means by itself, and what it does where the rest of a longer entry follows it."""
    exact, begun = _lexicon()
    found = [*exact.get(word, ()), *(exact.get(word[:-2], ()) if word.endswith("'s") else ())]
    for long in range(1, min(len(word), LONGEST) + 1):
        found += begun.get(word[:long], ())
    alone = frozenset(meaning for parts, meaning in found if len(parts) == 1)
    return alone, tuple((parts[1:], meaning) for parts, meaning in found if len(parts) > 1)


def _alike(part: str, word: str) -> bool:
    return word.startswith(part[:-1]) if part.endswith("*") else word == part


Entries = dict[str, list[tuple[tuple[str, ...], str]]]


@lru_cache(maxsize=1)
def _lexicon() -> tuple[Entries, Entries]:
    """The entries by their first word, and those by its beginning."""
    exact: Entries = {}
    begun: Entries = {}
    for meaning, entries in WORDS.items():
        for entry in entries.split():
            dense = _DENSE.search(entry)
            parts = tuple(fold(entry.rstrip("*")) if dense else fold(entry).split("_"))
            first = parts[0]
            if first.endswith("*"):
                begun.setdefault(first[:-1], []).append((parts, meaning))
            else:
                exact.setdefault(first, []).append((parts, meaning))
    return exact, begun
